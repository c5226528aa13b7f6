//! Reads the objects of one informer for a subscription.

use std::sync::Arc;

use parking_lot::RwLock;
use pintle_core::object::Object;
use pintle_core::object::texts::{Projection, Reader, Source, TextSet};
use pintle_core::object::work::Work;
use pintle_core::ports::view::ViewError;

/// Reads one projection of objects, independent of the texts they were ingested with.
pub(crate) struct ObjectReader {
    reader: Reader,
    /// The source for the last text set: all objects of a store have the same one.
    last: RwLock<(Arc<TextSet>, Option<Source>)>,
}

impl ObjectReader {
    pub(crate) fn new(projection: Projection) -> Self {
        Self { reader: Reader::new(projection), last: RwLock::default() }
    }

    /// The declared fields of the object; `None` if its texts do not have them.
    pub(crate) fn read(&self, object: &Object) -> Option<Arc<str>> {
        self.reader.read(self.source(&object.text_set)?, &object.texts)
    }

    /// Cost of [`read`](Self::read) in units of work.
    pub(crate) fn cost(&self, object: &Object) -> u64 {
        self.source(&object.text_set).map_or(1, |source| self.reader.cost(source, &object.texts))
    }

    /// Reads many objects: appends their texts, up to the limits of work and bytes.
    ///
    /// # Errors
    /// If one of the limits is exceeded; a retry does not help.
    pub(crate) fn read_all(&self, objects: &[&Arc<Object>], texts: &mut Texts<'_>) -> Result<(), ViewError> {
        let Some(first) = objects.first() else { return Ok(()) };
        // All objects of a store have the same text set.
        let source_of_first = self.source(&first.text_set);
        texts.texts.reserve(objects.len());
        for object in objects {
            let same = Arc::ptr_eq(&object.text_set, &first.text_set);
            let source = if same { source_of_first } else { self.source(&object.text_set) };
            let Some(source) = source else { continue };
            if !texts.work.charge(self.reader.cost(source, &object.texts)) {
                return Err(ViewError::TooMuchWork);
            }
            if let Some(text) = self.reader.read(source, &object.texts) {
                texts.push(text)?;
            }
        }
        Ok(())
    }

    /// A text that has at least the declared fields. Not for plugins.
    pub(crate) fn uncut<'o>(&self, object: &'o Object) -> Option<&'o str> {
        self.source(&object.text_set)?.of(&object.texts).map(|text| &**text)
    }

    pub(crate) fn source(&self, texts: &Arc<TextSet>) -> Option<Source> {
        {
            let last = self.last.read();
            if Arc::ptr_eq(&last.0, texts) {
                return last.1;
            }
        }
        let source = self.reader.source(texts);
        *self.last.write() = (texts.clone(), source);
        source
    }
}

/// The texts that a lister call returns, within its limits of work and bytes.
pub(crate) struct Texts<'w> {
    pub(crate) texts: Vec<Arc<str>>,
    n_bytes: u64,
    max_bytes: u64,
    work: &'w Work,
}

impl<'w> Texts<'w> {
    pub(crate) fn new(work: &'w Work, max_bytes: u64) -> Self {
        Self { texts: Vec::new(), n_bytes: 0, max_bytes, work }
    }

    fn push(&mut self, text: Arc<str>) -> Result<(), ViewError> {
        self.n_bytes += text.len() as u64;
        if self.n_bytes > self.max_bytes {
            return Err(ViewError::TooManyBytes(self.max_bytes));
        }
        self.texts.push(text);
        Ok(())
    }
}
