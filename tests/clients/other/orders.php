<?php

require "Doctrine/ORM/autoload.php";

use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\Mapping\Driver\AttributeDriver;
use Doctrine\ORM\ORMSetup;
use Doctrine\ORM\Tools\SchemaTool;

class SnowflakeGenerator extends AbstractIdGenerator
{
    public function generateId(EntityManagerInterface $em, $entity)
    {
        return $em->getConnection()->fetchOne("SELECT snowflake_nextval()");
    }
}

#[ORM\Entity]
#[ORM\Table(name: "orders")]
class Order
{
    #[ORM\Id]
    #[ORM\Column(
        type: "bigint",
        columnDefinition: "bigint DEFAULT snowflake_nextval() NOT NULL",
        options: ["default" => "snowflake_nextval()"],
    )]
    #[ORM\GeneratedValue(strategy: "CUSTOM")]
    #[ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    public $id;

    public function __construct(#[ORM\Column(type: "text")] public string $item)
    {
    }
}

$config = ORMSetup::createConfiguration(true);
$config->setMetadataDriverImpl(new AttributeDriver([__DIR__]));
$server = ["driver" => "pdo_pgsql", "dbname" => getenv("PGDATABASE"), "user" => getenv("PGUSER")];
$connection = DriverManager::getConnection($server, $config); // libpq uses PGHOST etc.
$em = new EntityManager($connection, $config);

$tool = new SchemaTool($em);
$classes = [$em->getClassMetadata(Order::class)];
$tool->createSchema($classes); // as in a migration
echo count($tool->getUpdateSchemaSql($classes)), "\n"; // 0

$orders = array_map(fn($item) => new Order($item), ["tea", "milk", "sugar", "lemon"]);
$em->wrapInTransaction(fn($em) => array_map($em->persist(...), $orders));
echo $orders[0]->id, "\n"; // an ID
echo gettype($orders[0]->id), "\n"; // string
echo json_encode(["id" => (string) $orders[0]->id]), "\n"; // {"id":"an ID"}
echo gettype($connection->fetchOne("SELECT id FROM orders")), "\n"; // integer
$em->clear();
echo $em->find(Order::class, $orders[3]->id)->item, "\n"; // lemon

// For columns of type snowflake:
$connection->getDatabasePlatform()->registerDoctrineTypeMapping("snowflake", "bigint");
$connection->executeStatement("ALTER TABLE orders ALTER id TYPE snowflake");
echo count($tool->getUpdateSchemaSql($classes)), "\n"; // 0
echo gettype($connection->fetchOne("SELECT id FROM orders")), "\n"; // string
echo $em->getRepository(Order::class)->findOneBy(["id" => $orders[3]->id])->item, "\n"; // lemon
