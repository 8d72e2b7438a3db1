//! Tests of the store: revisions, history, pages, and every past state.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(name: &str, generation: u64) -> EncodedObject {
    EncodedObject::new(&json!({"metadata": {"name": name}, "generation": generation}))
}

fn put(storage: &ObjectStore, table: TableIx, key: &ObjectKey, generation: u64) -> u64 {
    let expected = storage.get(table, key).map(|stored| stored.revision);
    storage
        .put(table, key, expected, &object(key.as_str(), generation), SelectorAttributes::default())
        .unwrap()
        .revision
}

static SELECT_ALL: LazyLock<Selection> = LazyLock::new(Selection::default);

fn whole_table(at: Option<u64>) -> PageQuery<'static> {
    PageQuery { namespace: None, selection: &SELECT_ALL, from: None, at_revision: at, limit: None }
}

fn texts(page: &Page) -> Vec<String> {
    page.objects.iter().map(|stored| String::from_utf8(stored.bytes().to_vec()).unwrap()).collect()
}

#[test]
fn a_write_needs_the_version_that_was_read() {
    let storage = ObjectStore::new(10);
    let table = storage.create_table();
    let key = ObjectKey::new(Some("default"), "a");
    let first = put(&storage, table, &key, 1);
    assert!(storage.put(table, &key, None, &object("a", 2), SelectorAttributes::default()).is_err(), "it exists");
    put(&storage, table, &key, 2);
    assert!(
        storage.put(table, &key, Some(first), &object("a", 3), SelectorAttributes::default()).is_err(),
        "another writer was faster"
    );
    assert!(storage.delete(table, &key, first).is_err());
    let last: serde_json::Value = serde_json::from_slice(&storage.delete(table, &key, first + 1).unwrap()).unwrap();
    assert_eq!(last["metadata"]["resourceVersion"], (first + 2).to_string());
    assert!(storage.get(table, &key).is_none());
}

#[test]
fn revisions_are_shared_by_all_tables() {
    let storage = ObjectStore::new(10);
    let (one, two) = (storage.create_table(), storage.create_table());
    let first = put(&storage, one, &ObjectKey::new(None, "a"), 1);
    let second = put(&storage, two, &ObjectKey::new(None, "a"), 1);
    assert_eq!(second, first + 1);
    assert_eq!(storage.revision(), second);
    assert!(
        matches!(storage.changes_after(one, first).unwrap(), TableChanges::Nothing { revision } if revision == second)
    );
}

#[test]
fn a_watcher_behind_the_history_gets_an_error() {
    let storage = ObjectStore::new(3);
    let table = storage.create_table();
    let revisions: Vec<u64> = (0..5).map(|n| put(&storage, table, &ObjectKey::new(None, "a"), n)).collect();
    assert_eq!(storage.changes_after(table, revisions[0]).unwrap_err(), Compacted { oldest: revisions[1] });
    let TableChanges::Events(events) = storage.changes_after(table, revisions[1]).unwrap() else {
        panic!("three are left")
    };
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), revisions[2..]);
    assert!(storage.page(table, whole_table(Some(revisions[0]))).is_err());
}

#[test]
fn a_page_of_one_namespace_has_no_objects_of_others() {
    let storage = ObjectStore::new(10);
    let table = storage.create_table();
    for (namespace, name) in [("a", "x"), ("a-b", "x"), ("ab", "x"), ("a", "y"), ("b", "x")] {
        put(&storage, table, &ObjectKey::new(Some(namespace), name), 1);
    }
    let page = storage.page(table, PageQuery { namespace: Some("a"), ..whole_table(None) }).unwrap();
    assert_eq!(page.objects.len(), 2);
}

#[test]
fn a_closed_table_ends_its_watches_and_rejects_writes() {
    let storage = ObjectStore::new(10);
    let table = storage.create_table();
    let revision = put(&storage, table, &ObjectKey::new(None, "a"), 1);
    storage.close_table(table);
    assert!(matches!(storage.changes_after(table, revision).unwrap(), TableChanges::Closed));
    assert!(
        storage.put(table, &ObjectKey::new(None, "b"), None, &object("b", 1), SelectorAttributes::default()).is_err()
    );
}

/// Returns random steps: a key out of a few, and whether to write it (true) or delete it.
fn steps() -> impl Strategy<Value = Vec<(u8, bool)>> {
    proptest::collection::vec((0u8..12, any::<bool>()), 1..80)
}

proptest! {
    #[test]
    fn every_past_state_can_be_read(steps in steps(), limit in 1usize..5) {
        let storage = ObjectStore::new(1000);
        let table = storage.create_table();
        let mut states: Vec<(u64, Vec<String>)> = vec![(storage.revision(), Vec::new())];
        for (generation, (which, write)) in steps.into_iter().enumerate() {
            let key = ObjectKey::new(Some(if which % 2 == 0 { "even" } else { "odd" }), &which.to_string());
            match storage.get(table, &key) {
                Some(stored) if !write => { storage.delete(table, &key, stored.revision).unwrap(); }
                _ => { put(&storage, table, &key, generation as u64); }
            }
            let now = texts(&storage.page(table, whole_table(None)).unwrap());
            states.push((storage.revision(), now));
        }
        for (revision, state) in &states {
            prop_assert_eq!(&texts(&storage.page(table, whole_table(Some(*revision))).unwrap()), state);
            // Reading that state in pages gives the same result, whatever has been written since.
            let (mut paged, mut from, mut left) = (Vec::new(), None, state.len());
            loop {
                let page = storage.page(table, PageQuery { from: from.as_ref(), limit: Some(limit), ..whole_table(Some(*revision)) }).unwrap();
                paged.extend(texts(&page));
                left -= page.objects.len();
                let Some((next, rest)) = page.rest else { break };
                prop_assert_eq!(rest, left);
                from = Some(next);
            }
            prop_assert_eq!(&paged, state);
            prop_assert_eq!(left, 0);
        }
    }
}

#[test]
fn bytes_of_an_object_are_changed_without_decoding() {
    let storage = ObjectStore::new(100);
    let table = storage.create_table();
    let key = ObjectKey::new(None, "a");
    let mut at = put(&storage, table, &key, 1);
    let attributes = storage.get(table, &key).unwrap().attributes.clone();
    for name in ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
        assert!(storage.update_bytes(table, &key, at - 1, |_| {}).is_err(), "it is not at that version");
        // Counted from the end, the name's position does not change when the version gets another
        // digit.
        let rename = |text: &mut [u8]| {
            let index = text.len() - "a\"}}".len();
            text[index] = name.as_bytes()[0];
        };
        at = storage.update_bytes(table, &key, at, rename).unwrap();
        let stored = storage.get(table, &key).unwrap();
        let parsed: serde_json::Value = serde_json::from_slice(stored.bytes()).unwrap();
        assert_eq!(parsed["metadata"], json!({"resourceVersion": at.to_string(), "name": name}));
        assert_eq!(stored.revision, at);
        assert!(Arc::ptr_eq(&stored.attributes, &attributes), "what selectors ask about is the same");
    }
    assert!(at > 9, "the version has grown by a digit");
    at = storage.update_bytes(table, &key, at, <[u8]>::make_ascii_uppercase).unwrap();
    assert!(storage.get(table, &key).unwrap().bytes().starts_with(b"{\"GENERATION\""));
    let Ok(TableChanges::Events(events)) = storage.changes_after(table, at - 1) else {
        panic!("every write is an event")
    };
    assert_eq!(events[0].revision, at);
    assert!(storage.update_bytes(table, &ObjectKey::new(None, "nobody"), at, |_| {}).is_err());
}

#[test]
fn changed_tables_are_listed_since_any_revision() {
    let storage = ObjectStore::new(10_000);
    let tables: Vec<TableIx> = (0..5).map(|_| storage.create_table()).collect();
    let key = ObjectKey::new(None, "a");
    let start = storage.revision();
    put(&storage, tables[3], &key, 1);
    let middle = put(&storage, tables[1], &key, 1);
    put(&storage, tables[3], &key, 2);
    assert_eq!(storage.tables_changed_since(start), (vec![tables[1], tables[3]], storage.revision()));
    assert_eq!(storage.tables_changed_since(middle).0, [tables[3]]);
    assert_eq!(storage.tables_changed_since(storage.revision()).0, []);
    for generation in 0..MAX_RECENT_REVISIONS as u64 + 10 {
        put(&storage, tables[4], &key, generation);
    }
    assert_eq!(storage.tables_changed_since(start).0, [tables[1], tables[3], tables[4]], "however long ago that was");
}
