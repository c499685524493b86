//! Parses tokens into a tree. Precedence, lowest first: or, and, not, comparison, sum, product.

use super::error::ParseError;
use super::function::{Function, OVER};
use super::token::{Token, tokens};
use super::{Arithmetic, Comparison, Node, Over};
use crate::facts::Value;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        let what = format!("{} bytes; an expression has at most {EXPRESSION_BYTES_MAX}", text.len());
        return Err(ParseError::new(text, 0, what));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    let node = parser.or()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Node, ParseError> {
        self.deeper()?;
        let mut parts = vec![self.and()?];
        while self.took_word("or") {
            parts.push(self.and()?);
        }
        self.depth -= 1;
        Ok(joined(parts, Node::Any))
    }

    fn and(&mut self) -> Result<Node, ParseError> {
        let mut parts = vec![self.not()?];
        while self.took_word("and") {
            parts.push(self.not()?);
        }
        Ok(joined(parts, Node::All))
    }

    fn not(&mut self) -> Result<Node, ParseError> {
        if !self.took_word("not") {
            return self.comparison();
        }
        self.deeper()?;
        let part = self.not()?;
        self.depth -= 1;
        Ok(Node::Not(Box::new(part)))
    }

    fn comparison(&mut self) -> Result<Node, ParseError> {
        let left = self.sum()?;
        let Some(comparison) = self.took_comparison() else { return Ok(left) };
        let right = self.sum()?;
        if self.took_comparison().is_some() {
            self.next -= 1;
            return Err(self.error("comparisons do not follow each other; write `and` between two"));
        }
        Ok(Node::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn took_comparison(&mut self) -> Option<Comparison> {
        let comparison = match self.peek() {
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            Token::Word(word) if word == "in" => Comparison::In,
            Token::Word(word) if word == "like" => Comparison::Like,
            Token::Word(word) if word == "not" => {
                let negated = match self.tokens.get(self.next + 1) {
                    Some((Token::Word(word), _)) if word == "in" => Comparison::NotIn,
                    Some((Token::Word(word), _)) if word == "like" => Comparison::NotLike,
                    _ => return None,
                };
                self.next += 1;
                negated
            }
            _ => return None,
        };
        self.next += 1;
        Some(comparison)
    }

    fn sum(&mut self) -> Result<Node, ParseError> {
        let before = self.depth;
        let mut left = self.product()?;
        loop {
            let sign = if self.took("+") {
                Arithmetic::Plus
            } else if self.took("-") {
                Arithmetic::Minus
            } else {
                self.depth = before;
                return Ok(left);
            };
            // A chain of operators is nested on its left side, so each operator adds a level to the
            // tree.
            self.deeper()?;
            left = Node::Count(sign, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, ParseError> {
        let before = self.depth;
        let mut left = self.single()?;
        loop {
            let sign = if self.took("*") {
                Arithmetic::Times
            } else if self.took("/") {
                Arithmetic::By
            } else if self.took("%") {
                Arithmetic::Rest
            } else {
                self.depth = before;
                return Ok(left);
            };
            self.deeper()?;
            left = Node::Count(sign, Box::new(left), Box::new(self.single()?));
        }
    }

    fn single(&mut self) -> Result<Node, ParseError> {
        if self.took("-") {
            self.deeper()?;
            let part = self.single()?;
            self.depth -= 1;
            return Ok(Node::Negative(Box::new(part)));
        }
        if self.took("(") {
            let node = self.or()?;
            self.want(")")?;
            return Ok(node);
        }
        if self.took("[") {
            return Ok(Node::List(self.list("]")?));
        }
        match self.peek().clone() {
            Token::Number(number) => self.step(Node::Literal(Value::Int(number))),
            Token::Size(bytes) => self.step(Node::Size(bytes)),
            Token::Text(text) => self.step(Node::Literal(Value::Text(text))),
            Token::Quoted(name) if name.is_empty() => Err(self.error("a name is empty")),
            Token::Quoted(name) => self.step(Node::Name(name)),
            Token::Word(word) => self.word(&word),
            Token::Symbol(_) | Token::End => Err(self.unexpected("a value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<Node, ParseError> {
        match word {
            "true" => return self.step(Node::Literal(Value::Bool(true))),
            "false" => return self.step(Node::Literal(Value::Bool(false))),
            "or" | "and" | "not" | "in" | "like" => return Err(self.unexpected("a value")),
            _ => {}
        }
        if matches!(self.tokens.get(self.next + 1), Some((Token::Symbol("("), _))) {
            return self.call(word);
        }
        // Every fact has a dot in its name. So `utils` in `package.nfs-utils` without backquotes is
        // an error here.
        if !word.trim_end_matches('.').contains('.') {
            let what =
                format!("{word} is not a fact: names of facts have a dot, and are in backquotes when they have other characters");
            return Err(self.error(what));
        }
        self.step(Node::Name(word.to_owned()))
    }

    fn call(&mut self, word: &str) -> Result<Node, ParseError> {
        let at = self.next;
        self.next += 2;
        let over = OVER.iter().find(|(name, _)| *name == word).map(|(_, over)| *over);
        if let Some(over) = over
            && let Some(node) = self.over(over)?
        {
            return Ok(node);
        }
        let Some(function) = Function::called(word) else {
            self.next = at;
            return Err(self.error(format!("no function is called {word}; there are {}", Function::names())));
        };
        let arguments = self.list(")")?;
        let wanted = function.arguments();
        if !wanted.contains(&arguments.len()) {
            self.next = at;
            let what = format!("{word} takes {} to {} values, not {}", wanted.start(), wanted.end(), arguments.len());
            return Err(self.error(what));
        }
        Ok(Node::Call(function, arguments))
    }

    /// Parses `any(kind, expression)`, `count(kind)` or `sum(kind.attribute)`. `None` for `min` and
    /// `max` of values.
    fn over(&mut self, over: Over) -> Result<Option<Node>, ParseError> {
        let Token::Word(word) = self.peek().clone() else {
            return if matches!(over, Over::Min | Over::Max) { Ok(None) } else { Err(self.unexpected("a kind of thing")) };
        };
        let closes = matches!(self.tokens.get(self.next + 1), Some((Token::Symbol(")"), _)));
        let follows = matches!(self.tokens.get(self.next + 1), Some((Token::Symbol(","), _)));
        if let Some((kind, _)) = word.split_once('.') {
            if closes && matches!(over, Over::Sum | Over::Min | Over::Max) {
                self.next += 2;
                return Ok(Some(Node::Over(over, kind.to_owned(), Some(Box::new(Node::Name(word.clone()))))));
            }
            let of_values = matches!(over, Over::Min | Over::Max);
            return if of_values { Ok(None) } else { Err(self.unexpected("a kind of thing")) };
        }
        if closes && over == Over::Count {
            self.next += 2;
            return Ok(Some(Node::Over(over, word, None)));
        }
        if !follows {
            let of_values = matches!(over, Over::Min | Over::Max);
            return if of_values { Ok(None) } else { Err(self.unexpected("a kind of thing and an expression")) };
        }
        self.next += 2;
        let inner = self.or()?;
        self.want(")")?;
        Ok(Some(Node::Over(over, word, Some(Box::new(inner)))))
    }

    /// Expressions separated by commas up to the closing bracket, which is consumed too.
    fn list(&mut self, end: &'static str) -> Result<Vec<Node>, ParseError> {
        let mut parts = Vec::new();
        while !self.took(end) {
            if !parts.is_empty() {
                self.want(",")?;
                // A comma may follow the last expression.
                if self.took(end) {
                    break;
                }
            }
            parts.push(self.or()?);
        }
        Ok(parts)
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(token, _)| token)
    }

    fn step(&mut self, node: Node) -> Result<Node, ParseError> {
        self.next += 1;
        Ok(node)
    }

    fn took(&mut self, symbol: &'static str) -> bool {
        let is = *self.peek() == Token::Symbol(symbol);
        self.next += usize::from(is);
        is
    }

    fn took_word(&mut self, wanted: &str) -> bool {
        let is = matches!(self.peek(), Token::Word(word) if word == wanted);
        self.next += usize::from(is);
        is
    }

    fn want(&mut self, symbol: &'static str) -> Result<(), ParseError> {
        if self.took(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn deeper(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(self.error(format!("more than {EXPRESSION_DEPTH_MAX} levels")));
        }
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> ParseError {
        let found = match self.peek() {
            Token::Number(number) | Token::Size(number) => number.to_string(),
            Token::Text(_) => "text".to_owned(),
            Token::Word(word) | Token::Quoted(word) => format!("`{word}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        };
        self.error(format!("{wanted} is wanted, not {found}"))
    }

    fn error(&self, what: impl Into<String>) -> ParseError {
        let at = self.tokens.get(self.next).map_or(self.text.len(), |(_, at)| *at);
        ParseError::new(self.text, at, what)
    }
}

fn joined(mut parts: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    join(parts)
}
