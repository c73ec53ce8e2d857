-- CreateTable
CREATE TABLE "orders" (
    "id" BIGINT NOT NULL DEFAULT snowflake_nextval(),
    "item" TEXT NOT NULL,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id")
);
