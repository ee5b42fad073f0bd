//! The chart as it renders: what changes here changes on every cluster with the next upgrade.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rstest::rstest;
use sampledb_chart_tests::helm::{objects, render_ci};

/// The rendered text without the definition of the CRD: that is generated, and checked where it is.
fn without_definition(text: &str) -> String {
    let documents = text.split("\n---").filter(|d| !d.trim().is_empty());
    let shortened = documents.map(|document| {
        if document.contains("\nkind: CustomResourceDefinition\n") {
            let head = document.split("\nspec:\n").next().unwrap_or_default();
            format!("{head}\nspec: (generated)")
        } else {
            document.trim_end().to_owned()
        }
    });
    shortened.collect::<Vec<_>>().join("\n---")
}

#[rstest]
fn an_upgrade_changes_what_its_author_meant_to_change(
    #[values("default", "full", "namespaced", "bare")] values: &str,
) {
    let text = render_ci(values).unwrap();
    objects(&text).unwrap();
    insta::with_settings!({snapshot_path => "../golden", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(values, without_definition(&text));
    });
}
