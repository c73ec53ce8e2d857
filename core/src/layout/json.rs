//! The JSON form of a layout. A layout is written as an object. It can be read from an object, or from a
//! string that contains the text form:
//!
//! ```
//! # use snowflake_id_core::Layout;
//! let layout: Layout = serde_json::from_str(r#""js53""#)?;
//! assert_eq!(
//!     serde_json::to_string(&layout)?,
//!     r#"{"fields":[{"name":"time","bits":33},{"name":"worker","bits":4},{"name":"sequence","bits":15}],"#.to_owned()
//!         + r#""unit":"1s","epoch":"2020-01-01T00:00:00Z"}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::Layout;
use super::parse::{field_names, parse_epoch, parse_unit, print_unit, unknown};
use crate::error::LayoutError;
use crate::field::Field;
use crate::message::instant;

/// The JSON forms from which a layout can be read: a string, and an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Object(Object),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    fields: Vec<ObjectField>,
    unit: String,
    epoch: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectField {
    name: String,
    bits: u32,
}

impl TryFrom<Form> for Layout {
    type Error = LayoutError;

    fn try_from(form: Form) -> Result<Layout, LayoutError> {
        let object = match form {
            Form::Text(text) => return text.parse(),
            Form::Object(object) => object,
        };
        let fields: Result<Vec<_>, _> = object
            .fields
            .iter()
            .map(|ObjectField { name, bits }| match Field::from_name(name) {
                Some(field) => Ok((field, *bits)),
                None => Err(unknown(name, field_names())),
            })
            .collect();
        Layout::new(&fields?, parse_unit(&object.unit)?, parse_epoch(&object.epoch)?)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        Form::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Layout {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self
            .fields()
            .into_iter()
            .map(|(field, bits)| ObjectField { name: field.name().into(), bits })
            .collect();
        Object { fields, unit: print_unit(self.unit_us()), epoch: instant(self.epoch_us()) }
            .serialize(serializer)
    }
}
