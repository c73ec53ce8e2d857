//! Public IDs: texts with a prefix, and UUIDs, both with or without a key.
//!
//! Without a key, a public ID is only another form of the ID, and everyone can read the ID from it. With a
//! key, a public ID is sealed. A sealed public ID does not reveal the ID, and a public ID that was not made
//! with the key is rejected. For the probability that such a public ID is accepted by chance, see
//! [`PublicIds`] and [`Uuids`].
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
