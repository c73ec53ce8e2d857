//! IDs for the outside: texts with a prefix, and UUIDs, both with or without a key.
//!
//! Without a key they are the ID in other clothes, for everybody to read. With a key they are sealed: they do
//! not show the ID, and one that was not made with the key is refused, but for an accident of the probability
//! that [`PublicIds`] and [`Uuids`] give.
//!
//! ```
//! use snowflake_id_core::public::{MAX_TEXT, Prefix, PublicIds, Uuids};
//!
//! let customers = PublicIds::new(Prefix::new(b"cus")?, None);
//! assert_eq!(customers.text(1541815603606036480, &mut [0; MAX_TEXT])?, "cus_4aaW4SzAyQK");
//! assert_eq!(customers.id(b"cus_4aaW4SzAyQK")?, 1541815603606036480);
//!
//! let sealed = Uuids::new(Some((&[7; 16], Prefix::NONE)));
//! let uuid = sealed.uuid(1541815603606036480)?;
//! assert_eq!(sealed.id(&uuid)?, 1541815603606036480);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod prefix;
mod public_text;
mod seal;
mod uuid;

pub use prefix::{MAX_PREFIX, Prefix, PrefixError};
pub use public_text::{MAX_TEXT, PublicIds, PublicTextError};
pub use uuid::{UuidError, Uuids};
