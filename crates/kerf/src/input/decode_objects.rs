//! Decodes all objects of a kind, on several threads if there are enough of them.

use std::num::NonZeroUsize;

use super::decode::FieldProblem;
use super::documents::{ObjectBody, RawObject};
use super::objects::{ReadObject, ReadResult, RejectedObject, WithOrigin};
use super::source::ObjectOrigin;

/// Minimum number of objects per thread; fewer are decoded on one thread.
pub(super) const PARALLEL_MIN_OBJECTS: usize = 512;

/// Result of decoding a number of objects.
pub(super) struct DecodedObjects<T> {
    pub(super) objects: Vec<WithOrigin<T>>,
    pub(super) problems: Vec<(ObjectOrigin, FieldProblem)>,
    pub(super) warnings: Vec<(ObjectOrigin, String)>,
}

/// Decodes all objects in order, on several threads if there are enough objects.
pub(super) fn decode_all<T: Send>(
    raw_objects: &[RawObject<'_>],
    threads: NonZeroUsize,
    read: &(dyn Fn(&ObjectBody<'_>) -> ReadResult<T> + Sync),
) -> DecodedObjects<T> {
    let threads = threads.get().min(raw_objects.len() / PARALLEL_MIN_OBJECTS).max(1);
    if threads == 1 {
        return decode_chunk(raw_objects, read);
    }
    let parts: Vec<DecodedObjects<T>> = std::thread::scope(|scope| {
        let parts = raw_objects.chunks(raw_objects.len().div_ceil(threads));
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || decode_chunk(part, read))).collect();
        let results =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results.collect()
    });
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_else(|| decode_chunk(&[], read));
    parts.fold(first, |mut all, part| {
        all.objects.extend(part.objects);
        all.problems.extend(part.problems);
        all.warnings.extend(part.warnings);
        all
    })
}

fn decode_chunk<T>(
    raw_objects: &[RawObject<'_>],
    read: &dyn Fn(&ObjectBody<'_>) -> ReadResult<T>,
) -> DecodedObjects<T> {
    let mut decoded =
        DecodedObjects { objects: Vec::with_capacity(raw_objects.len()), problems: Vec::new(), warnings: Vec::new() };
    for RawObject { origin, body, .. } in raw_objects {
        match read(body) {
            Ok(ReadObject { object, warnings }) => {
                decoded.objects.push(WithOrigin { origin: *origin, object });
                decoded.warnings.extend(warnings.into_iter().map(|warning| (*origin, warning)));
            }
            Err(RejectedObject { problems, warnings }) => {
                decoded.problems.extend(problems.into_iter().map(|problem| (*origin, problem)));
                decoded.warnings.extend(warnings.into_iter().map(|warning| (*origin, warning)));
            }
        }
    }
    decoded
}
