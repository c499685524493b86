//! Evaluates an expression. An error lists what is missing, one line for each.

use std::mem;

use super::function::{Function, extreme, like, numbered};
use super::{Arithmetic, Comparison, EACH, Evaluation, Look, Node, Outcome, Over};
use crate::facts::{Attributes, Facts, Value};
use crate::limits::{EXPRESSION_STEPS_MAX, LINES_MAX};
use crate::shown_value::shown;

type Answer = Result<Value, Vec<String>>;

pub(super) fn evaluate(root: &Node, facts: &Facts, thing: Option<(&str, &str)>) -> Evaluation {
    let mut scopes = Vec::new();
    if let Some((kind, name)) = thing {
        let attributes = facts.things.get(kind).and_then(|things| things.get(name));
        scopes.push(Scope { kind, name, attributes });
    }
    let mut evaluator = Evaluator { facts, outer: scopes.len(), scopes, looked_at: Vec::new(), steps: 0 };
    let outcome = match evaluator.node(root) {
        Ok(value) => Outcome::Known(value),
        Err(missing) => Outcome::Unknown(missing),
    };
    Evaluation { outcome, looked_at: evaluator.looked_at }
}

struct Evaluator<'a> {
    facts: &'a Facts,
    /// The things in scope, the innermost last.
    scopes: Vec<Scope<'a>>,
    /// Number of things that were in scope before the evaluation.
    outer: usize,
    looked_at: Vec<Look>,
    steps: usize,
}

#[derive(Clone, Copy)]
struct Scope<'a> {
    kind: &'a str,
    name: &'a str,
    attributes: Option<&'a Attributes>,
}

impl<'a> Evaluator<'a> {
    fn node(&mut self, node: &'a Node) -> Answer {
        self.steps += 1;
        if self.steps > EXPRESSION_STEPS_MAX {
            return Err(vec!["too much to look at: there are too many things".to_owned()]);
        }
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Size(bytes) => Ok(Value::Int(*bytes)),
            Node::List(parts) => parts.iter().map(|part| self.node(part)).collect::<Result<_, _>>().map(Value::List),
            Node::Name(name) => self.name(name),
            Node::All(parts) => self.joined(parts, false),
            Node::Any(parts) => self.joined(parts, true),
            Node::Not(part) => self.truth(part).map(|yes| Value::Bool(!yes)),
            Node::Negative(part) => self.number(part).and_then(|number| in_range(number.checked_neg())),
            Node::Compare(comparison, left, right) => self.compare(*comparison, left, right),
            Node::Count(sign, left, right) => {
                let numbers = both(self.number(left), self.number(right));
                numbers.and_then(|(left, right)| counted(*sign, left, right))
            }
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Over(over, kind, inner) => self.over(*over, kind, inner.as_deref()),
        }
    }

    /// `and` ends at the first no, and `or` at the first yes. `deciding` is that answer.
    fn joined(&mut self, parts: &'a [Node], deciding: bool) -> Answer {
        let mut missing = Vec::new();
        for part in parts {
            match self.truth(part) {
                Ok(yes) if yes == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                Err(more) => append(&mut missing, more),
            }
        }
        if missing.is_empty() { Ok(Value::Bool(!deciding)) } else { Err(missing) }
    }

    fn truth(&mut self, node: &'a Node) -> Result<bool, Vec<String>> {
        match self.node(node)? {
            Value::Bool(yes) => Ok(yes),
            other => Err(vec![format!("{} is {}, which is neither yes nor no", called(node), shown(&other))]),
        }
    }

    fn number(&mut self, node: &'a Node) -> Result<i64, Vec<String>> {
        match self.node(node)? {
            Value::Int(number) => Ok(number),
            other => Err(vec![format!("{} is {}, which is not a number", called(node), shown(&other))]),
        }
    }

    fn compare(&mut self, comparison: Comparison, left: &'a Node, right: &'a Node) -> Answer {
        let (found, wanted) = both(self.node(left), self.node(right))?;
        let yes = match (comparison, &found, &wanted) {
            (Comparison::Equal, ..) if alike(&found, &wanted) => Some(found == wanted),
            (Comparison::NotEqual, ..) if alike(&found, &wanted) => Some(found != wanted),
            (Comparison::Less, Value::Int(a), Value::Int(b)) => Some(a < b),
            (Comparison::LessOrEqual, Value::Int(a), Value::Int(b)) => Some(a <= b),
            (Comparison::Greater, Value::Int(a), Value::Int(b)) => Some(a > b),
            (Comparison::GreaterOrEqual, Value::Int(a), Value::Int(b)) => Some(a >= b),
            (Comparison::In, _, Value::List(values)) => among(&found, values),
            (Comparison::NotIn, _, Value::List(values)) => among(&found, values).map(|is| !is),
            (Comparison::Like, Value::Text(text), Value::Text(pattern)) => Some(like(text, pattern)),
            (Comparison::NotLike, Value::Text(text), Value::Text(pattern)) => Some(!like(text, pattern)),
            _ => None,
        };
        yes.map(Value::Bool).ok_or_else(|| {
            vec![format!("{} is {}, which cannot be compared with {}", called(left), shown(&found), shown(&wanted))]
        })
    }

    fn call(&mut self, function: Function, arguments: &'a [Node]) -> Answer {
        match (function, arguments) {
            (Function::Known, [part]) => match self.node(part) {
                Err(missing) if self.was_unread(part) => Err(missing),
                answer => {
                    self.unknown_look(part, answer.is_ok());
                    Ok(Value::Bool(answer.is_ok()))
                }
            },
            (Function::Default, [part, otherwise]) => match self.node(part) {
                Err(missing) if self.was_unread(part) => Err(missing),
                Err(_) => {
                    self.unknown_look(part, false);
                    self.node(otherwise)
                }
                known => known,
            },
            (Function::Unset, [part]) => match self.node(part) {
                Err(missing) if self.was_unread(part) => Err(missing),
                answer => {
                    self.unknown_look(part, answer.is_ok());
                    Ok(Value::Bool(answer.is_err()))
                }
            },
            _ => {
                let mut values = Vec::new();
                let mut missing = Vec::new();
                for argument in arguments {
                    match self.node(argument) {
                        Ok(value) => values.push(value),
                        Err(more) => append(&mut missing, more),
                    }
                }
                if !missing.is_empty() {
                    return Err(missing);
                }
                let first = arguments.first().map(called).unwrap_or_default();
                function.of(&values).map_err(|what| vec![format!("{first}: {what}")])
            }
        }
    }

    /// Whether a fact of this part is unknown because its source could not be read. Then it may be
    /// set.
    fn was_unread(&mut self, node: &'a Node) -> bool {
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        node.visit(&mut |part| match part {
            Node::Name(name) => names.push(name.as_str()),
            Node::Over(_, kind, _) => kinds.push(kind.as_str()),
            _ => {}
        });
        kinds.into_iter().any(|kind| self.why_unread_things(kind).is_some())
            || names.into_iter().any(|name| self.reason(name).is_some() && self.name(name).is_err())
    }

    /// Notes that an expression read a fact that is not known and allowed for that.
    fn unknown_look(&mut self, node: &Node, known: bool) {
        if let Node::Name(name) = node
            && !known
        {
            let name = self.display_name(name);
            self.look(Look { name, value: None });
        }
    }

    fn over(&mut self, over: Over, kind: &'a str, inner: Option<&'a Node>) -> Answer {
        let reason = self.why_unread_things(kind);
        let Some(things) = self.facts.things.get(kind) else {
            return Err(vec![format!("{kind}: {}", reason.unwrap_or("none were looked for"))]);
        };
        let mut found = Found { deciding: over == Over::Any, ..Found::default() };
        for (name, attributes) in things {
            let Some(inner) = inner else { break };
            if self.steps > EXPRESSION_STEPS_MAX {
                break;
            }
            self.scopes.push(Scope { kind, name, attributes: Some(attributes) });
            let before = mem::take(&mut self.looked_at);
            let answer = self.node(inner);
            let seen = mem::replace(&mut self.looked_at, before);
            self.scopes.pop();
            if found.take(over, kind, name, answer, seen) {
                break;
            }
        }
        // If some things of the kind are unknown, an answer about all of them is unknown too.
        let partly = reason.map(|reason| format!("{kind}: {reason}"));
        let whole = inner.is_none().then_some(things.len());
        let (answer, looks) = found.answer(over, whole, partly);
        if matches!(over, Over::Count | Over::Sum | Over::Min | Over::Max) {
            if let Ok(value) = &answer {
                let name = match inner {
                    Some(Node::Name(name)) => format!("{}({name})", word(over)),
                    Some(_) => format!("{}({kind}, …)", word(over)),
                    None => format!("{}({kind})", word(over)),
                };
                self.look(Look { name, value: Some(value.clone()) });
            }
        } else if things.is_empty() {
            self.look(Look { name: format!("count({kind})"), value: Some(Value::Int(0)) });
        } else {
            looks.into_iter().for_each(|look| self.look(look));
        }
        answer
    }

    fn name(&mut self, name: &'a str) -> Answer {
        let value = match self.scope_of(name) {
            Some((scope, "name")) => Some(Value::from(scope.name)),
            Some((scope, attribute)) => scope.attributes.and_then(|all| all.get(attribute)).map(|fact| fact.value.clone()),
            None => self.facts.host.get(name).map(|fact| fact.value.clone()).or_else(|| self.word_of(name)),
        };
        let shown_name = self.display_name(name);
        match value {
            Some(value) => {
                self.look(Look { name: shown_name, value: Some(value.clone()) });
                Ok(value)
            }
            None => Err(vec![match self.reason(name) {
                Some(reason) => format!("{shown_name}: {reason}"),
                None => shown_name,
            }]),
        }
    }

    /// Why a fact, or an attribute of the thing in scope, is not known.
    fn reason(&self, name: &'a str) -> Option<&'a str> {
        let of_thing =
            self.scope_of(name).and_then(|(scope, attribute)| self.facts.why_unknown_of(scope.kind, scope.name, attribute));
        of_thing.or_else(|| reason(self.facts, name))
    }

    /// One word of a fact with several words: `sysctl.net.ipv4.tcp_rmem.3` is the third.
    fn word_of(&self, name: &str) -> Option<Value> {
        let (whole, index) = name.rsplit_once('.')?;
        let index = index.parse().ok()?;
        self.facts.host.get(whole).and_then(|fact| numbered(&fact.value, index).ok())
    }

    /// The thing and the attribute that a name refers to.
    fn scope_of(&self, name: &'a str) -> Option<(Scope<'a>, &'a str)> {
        let (head, attribute) = name.split_once('.')?;
        if head == EACH {
            return self.scopes.first().map(|scope| (*scope, attribute));
        }
        self.scopes.iter().rev().find(|scope| scope.kind == head).map(|scope| (*scope, attribute))
    }

    /// A name as a finding shows it. If the thing is only in scope inside the expression, the name
    /// contains it.
    fn display_name(&self, name: &str) -> String {
        let Some((head, attribute)) = name.split_once('.') else { return name.to_owned() };
        let inner = self.scopes.iter().skip(self.outer).rev().find(|scope| scope.kind == head);
        match inner {
            Some(scope) => format!("{} {}: {attribute}", scope.kind, shown(&Value::from(scope.name))),
            None => name.to_owned(),
        }
    }

    /// Why there may be things of a kind that were not found.
    fn why_unread_things(&self, kind: &str) -> Option<&'a str> {
        let unknown = &self.facts.unknown;
        let of_kind = unknown.get(kind).or_else(|| unknown.get(&format!("{kind}."))).map(String::as_str);
        of_kind.or_else(|| self.facts.why_unknown_others(kind))
    }

    fn look(&mut self, look: Look) {
        if self.looked_at.len() < LINES_MAX && !self.looked_at.iter().any(|seen| seen.name == look.name) {
            self.looked_at.push(look);
        }
    }
}

/// What was found of the things of a kind so far.
#[derive(Default)]
struct Found {
    /// The answer of one thing that decides the result: yes for `any`, no for `all`.
    deciding: bool,
    decided: bool,
    true_count: i64,
    values: Vec<Value>,
    missing: Vec<String>,
    looks: Vec<Look>,
}

impl Found {
    /// Takes the answer of one thing. Returns whether the result is decided.
    fn take(&mut self, over: Over, kind: &str, name: &str, answer: Answer, seen: Vec<Look>) -> bool {
        let value = match answer {
            Ok(value) => value,
            Err(more) => {
                append(&mut self.missing, more);
                return false;
            }
        };
        match (over, value) {
            (Over::Any | Over::All, Value::Bool(yes)) => {
                if yes == self.deciding {
                    self.decided = true;
                    self.looks = seen;
                } else {
                    let room = LINES_MAX.saturating_sub(self.looks.len());
                    self.looks.extend(seen.into_iter().take(room));
                }
            }
            (Over::Count, Value::Bool(yes)) => self.true_count += i64::from(yes),
            (Over::Sum | Over::Min | Over::Max, value @ Value::Int(_)) => self.values.push(value),
            (_, other) => {
                let name = shown(&Value::from(name));
                append(&mut self.missing, vec![format!("{kind} {name}: {} is of no use here", shown(&other))]);
            }
        }
        self.decided
    }

    /// The answer and the facts that it is based on. `whole` is the number of all things, if all
    /// are counted.
    fn answer(self, over: Over, whole: Option<usize>, partly: Option<String>) -> (Answer, Vec<Look>) {
        if self.decided {
            return (Ok(Value::Bool(self.deciding)), self.looks);
        }
        let mut missing = self.missing;
        append(&mut missing, partly.into_iter().collect());
        if !missing.is_empty() {
            return (Err(missing), self.looks);
        }
        let answer = match over {
            Over::Any | Over::All => Ok(Value::Bool(!self.deciding)),
            Over::Count => in_range(whole.map_or(Some(self.true_count), |count| i64::try_from(count).ok())),
            Over::Sum => {
                let mut numbers = self.values.iter().map(|value| if let Value::Int(number) = value { *number } else { 0 });
                in_range(numbers.try_fold(0_i64, i64::checked_add))
            }
            Over::Min | Over::Max => extreme(&self.values, over == Over::Min).map_err(|what| vec![what]),
        };
        (answer, self.looks)
    }
}

fn counted(sign: Arithmetic, left: i64, right: i64) -> Answer {
    in_range(match sign {
        Arithmetic::Plus => left.checked_add(right),
        Arithmetic::Minus => left.checked_sub(right),
        Arithmetic::Times => left.checked_mul(right),
        Arithmetic::By => left.checked_div(right),
        Arithmetic::Rest => left.checked_rem(right),
    })
}

fn in_range(number: Option<i64>) -> Answer {
    number.map(Value::Int).ok_or_else(|| vec!["a number beyond the range, or a division by zero".to_owned()])
}

/// Both values, or everything that is missing for either.
fn both<A, B>(left: Result<A, Vec<String>>, right: Result<B, Vec<String>>) -> Result<(A, B), Vec<String>> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(mut missing), Err(more)) => {
            append(&mut missing, more);
            Err(missing)
        }
        (Err(missing), Ok(_)) | (Ok(_), Err(missing)) => Err(missing),
    }
}

fn append(missing: &mut Vec<String>, more: Vec<String>) {
    for line in more {
        if missing.len() < LINES_MAX && !missing.contains(&line) {
            missing.push(line);
        }
    }
}

/// Whether the values have the same type, so that they can be compared.
fn alike(left: &Value, right: &Value) -> bool {
    mem::discriminant(left) == mem::discriminant(right)
}

/// Whether a value is in a list. Not known if the list does not contain it and has values of other
/// types.
fn among(value: &Value, values: &[Value]) -> Option<bool> {
    if values.contains(value) {
        return Some(true);
    }
    values.iter().all(|other| alike(value, other)).then_some(false)
}

fn called(node: &Node) -> String {
    match node {
        Node::Name(name) => name.clone(),
        _ => "a part of the expression".to_owned(),
    }
}

fn word(over: Over) -> &'static str {
    super::function::OVER.iter().find(|(_, known)| *known == over).map_or("", |(name, _)| *name)
}

/// Why a fact could not be read: the reason for its name or for the longest prefix of its name.
pub(super) fn reason<'a>(facts: &'a Facts, name: &str) -> Option<&'a str> {
    let unknown = &facts.unknown;
    let exact = unknown.get(name);
    let prefixes = name.match_indices('.').flat_map(|(dot, _)| [name.get(..dot), name.get(..=dot)]).flatten();
    exact.or_else(|| prefixes.filter_map(|prefix| unknown.get(prefix)).next_back()).map(String::as_str)
}
