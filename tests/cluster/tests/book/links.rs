//! The pages for people, without a server: links and anchors lead somewhere, the contents of the book are complete, and what
//! the pages say is tested, is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use harness::book::{files, quoted, read, root, rows};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A page, as far as links go.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.add_anchor(&heading.take().expect("a heading that began"))
                }
                Event::Text(text) | Event::Code(text) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&text));
                }
                Event::SoftBreak => heading.iter_mut().for_each(|heading| heading.push(' ')),
                Event::Html(html) | Event::InlineHtml(html) => {
                    for attribute in ["src=\"", "srcset=\"", "href=\""] {
                        let values =
                            html.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap());
                        page.links.extend(values.map(str::to_owned));
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// As forges and mdBook make it of a heading.
    fn add_anchor(&mut self, heading: &str) {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let others = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(others).find(|name| !self.anchors.contains(name));
        self.anchors.extend(free);
    }
}

/// A path without `..` in it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leads out of the repository", path.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The pages at the top and those of the book.
fn pages() -> Vec<String> {
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    top.filter(|name| name.ends_with(".md")).chain(files("docs", ".md")).collect()
}

#[test]
fn links_and_anchors_lead_somewhere() {
    let pages: BTreeMap<String, Page> =
        pages().into_iter().map(|path| (path.clone(), Page::parse(&read(&path)))).collect();
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => plain(&Path::new(path).parent().unwrap().join(file)).to_str().unwrap().to_owned(),
            };
            let is_there = match pages.get(&target) {
                Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
                None => root().join(&target).exists() && anchor.is_empty(),
            };
            if !is_there {
                broken.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn the_contents_of_the_book_are_complete() {
    let contents = Page::parse(&read("docs/SUMMARY.md"));
    let listed: Vec<_> = contents.links.iter().map(|link| format!("docs/{link}")).collect();
    let pages = files("docs", ".md").into_iter().filter(|path| path != "docs/SUMMARY.md");
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), pages.collect());
    assert_eq!(listed.len(), contents.links.iter().collect::<BTreeSet<_>>().len(), "a page is there twice");
}

#[test]
fn the_readme_is_one_screen_and_what_follows() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "{lines} lines");
}

/// What stands in the last column of the tables of faults: tests, and targets of the Makefile.
#[test]
fn the_tests_of_the_promises_exist() {
    let sources: String =
        [files("tests", ".rs"), files("core", ".rs")].concat().iter().map(|path| read(path)).collect();
    let makefile = read("Makefile");
    let page = read("docs/promises.md");
    let mut named = 0;
    for cells in rows(&page).filter(|cells| cells[2] != "test") {
        for name in quoted(cells[2]) {
            let exists = match name.strip_prefix("make ") {
                Some(target) => makefile.contains(&format!("\n{target}:")),
                None => sources.contains(&format!("fn {name}(")),
            };
            assert!(exists, "there is no test {name}");
            named += 1;
        }
    }
    assert!(named > 80, "only {named} tests are named");
}
