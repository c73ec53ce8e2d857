//! Segments whose numbers are fetched before the first call (`snowflake_id.prefetch_segments`).

use super::state::Worker;
use crate::config;
use crate::pg::encoding::guessed_utf8;
use crate::pg::setting::split_list;
use crate::shared::segment_record::LONGEST_NAME;
use crate::shared::segment_table;

impl Worker {
    /// Applies the setting if it has changed.
    pub fn prefetch(&mut self) {
        let list = config::prefetch_segments();
        if list == self.prefetched {
            return;
        }
        self.known.iter_mut().for_each(|known| known.is_prefetched = false);
        // The list can be split, because the check hook has accepted it.
        for name in split_list(&list).unwrap_or_default() {
            let name = guessed_utf8(name.as_bytes());
            // A name that gets no slot is handled like a name that is not in the list.
            let is_name = (1..=LONGEST_NAME).contains(&name.len());
            if let Some(place) = is_name.then(|| segment_table::find_or_assign(&name).ok()).flatten() {
                self.known.of(place.at, &name).is_prefetched = true;
                segment_table::need(place.at);
            }
        }
        self.prefetched = list;
    }
}
