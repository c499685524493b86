//! The modules of a crate as its source files declare them, and the file that defines the item of a path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, UseTree, Visibility};

use crate::tree::read;

/// The names from the root of the crate to a module or an item.
pub(crate) type Names = Vec<String>;

/// Maximum length of a chain of re-exports.
const REEXPORTS_MAX: usize = 20;

/// The modules of one library or program.
#[derive(Default)]
pub(crate) struct Modules {
    by_names: BTreeMap<Names, Module>,
}

/// A module: the file that contains it, its own items, and what it imports.
#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    imports: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// Imports that are not re-exports. A re-export only gives an item another name.
    used: Vec<Names>,
}

impl Modules {
    /// Reads the crate whose root is this file, without its tests.
    pub(crate) fn of(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.read_file(root, Vec::new(), root.parent().unwrap());
        modules
    }

    /// Every file of it.
    pub(crate) fn files(&self) -> BTreeSet<&Path> {
        self.by_names.values().map(|module| &*module.file).collect()
    }

    /// Each file with the files from which it imports.
    pub(crate) fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for module in self.by_names.values() {
            let targets = module.used.iter().filter_map(|names| self.file_of(names, 0));
            found.entry(&*module.file).or_default().extend(targets.filter(|file| *file != module.file));
        }
        found
    }

    /// The file that defines an item. `None` if it is outside the crate.
    fn file_of(&self, names: &[String], depth: usize) -> Option<&Path> {
        let inside = (0..=names.len()).rev().find(|count| self.by_names.contains_key(&names[..*count]))?;
        let module = &self.by_names[&names[..inside]];
        let Some(item) = names.get(inside).filter(|item| !module.items.contains(*item)) else { return Some(&module.file) };
        if depth == REEXPORTS_MAX {
            return None;
        }
        let again = |target: &Names, rest: &[String]| self.file_of(&[target, rest].concat(), depth + 1);
        match module.imports.get(item) {
            Some(target) => again(target, &names[inside + 1..]),
            None => module.globs.iter().find_map(|glob| again(glob, &names[inside..])),
        }
    }

    fn read_file(&mut self, file: &Path, names: Names, folder: &Path) {
        let parsed = syn::parse_file(&read(file)).unwrap_or_else(|error| panic!("cannot parse {}: {error}", file.display()));
        self.enter(parsed.items, file, names, folder);
    }

    fn enter(&mut self, items: Vec<Item>, file: &Path, names: Names, folder: &Path) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            match item {
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let name = inner.ident.to_string();
                    let (below, folder) = ([&*names, std::slice::from_ref(&name)].concat(), folder.join(&name));
                    module.items.insert(name);
                    match inner.content {
                        Some((_, items)) => self.enter(items, file, below, &folder),
                        None => self.read_file(&file_of_module(file, &folder, &inner.attrs), below, &folder),
                    }
                }
                Item::Use(import) => {
                    let is_reexport = !matches!(import.vis, Visibility::Inherited);
                    module.import(&import.tree, &mut Vec::new(), &names, is_reexport);
                }
                other => module.items.extend(name_of(&other)),
            }
        }
        self.by_names.insert(names, module);
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, above: &mut Names, here: &Names, is_reexport: bool) {
        let (name, shown) = match tree {
            UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.import(&path.tree, above, here, is_reexport);
                above.pop();
                return;
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, above, here, is_reexport)),
            UseTree::Glob(_) => (None, None),
            UseTree::Name(name) => (Some(name.ident.to_string()), None),
            UseTree::Rename(rename) => (Some(rename.ident.to_string()), Some(rename.rename.to_string())),
        };
        let name = name.filter(|name| name != "self");
        let target = absolute(&[above.as_slice(), name.as_slice()].concat(), here);
        if !is_reexport {
            self.used.push(target.clone());
        }
        match shown.or_else(|| target.last().cloned()) {
            Some(shown) if !matches!(tree, UseTree::Glob(_)) => drop(self.imports.insert(shown, target)),
            _ => self.globs.push(target),
        }
    }
}

/// A path of a `use` in the module `here`, from the root of the crate.
fn absolute(path: &[String], here: &Names) -> Names {
    let mut from = here.clone();
    let mut rest = path;
    while let [first, after @ ..] = rest {
        match first.as_str() {
            "crate" => from.clear(),
            "super" => drop(from.pop()),
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    from.extend_from_slice(rest);
    from
}

fn file_of_module(declared_in: &Path, folder: &Path, attributes: &[Attribute]) -> PathBuf {
    let given = attributes.iter().find(|attribute| attribute.path().is_ident("path"));
    let given = given.and_then(|attribute| attribute.meta.require_name_value().ok()).map(|given| &given.value);
    if let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. })) = given {
        return declared_in.parent().unwrap().join(path.value());
    }
    let beside = folder.with_extension("rs");
    if beside.exists() { beside } else { folder.join("mod.rs") }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|on| on.is_ident("test"))
    })
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}
