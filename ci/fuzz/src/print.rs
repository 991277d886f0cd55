// Licensed to the Apache Software Foundation (ASF) under one
// or more contributor license agreements.  See the NOTICE file
// distributed with this work for additional information
// regarding copyright ownership.  The ASF licenses this file
// to you under the Apache License, Version 2.0 (the
// "License"); you may not use this file except in compliance
// with the License.  You may obtain a copy of the License at
//
//   http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing,
// software distributed under the License is distributed on an
// "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
// KIND, either express or implied.  See the License for the
// specific language governing permissions and limitations
// under the License.
//! Two ways to write one query: with the names it has, or with names all different.
//!
//! Which column a name means follows the rules of SQL, and [`Scopes`] knows them: the
//! nearest scope wins, a qualifier hides the same qualifier further out, and a name
//! that two columns of a scope share means neither. A reference that cannot be written
//! is an error here, so that what is printed means what was built. Renaming apart
//! leaves nothing to these rules.

use std::fmt::Write;

use crate::ast::{
    Body, Col, Expr, Function, Group, Item, JoinKind, Leaf, Literal, Op, Order, Query,
    Select, SetKind, SetOp, Source, inline_ctes,
};
use crate::tables::{COPIES, TABLES};

/// Why a query cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprintable(pub String);

type Result<T> = std::result::Result<T, Unprintable>;

fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Unprintable(message.into()))
}

/// The query as it is, with the names that collide.
pub fn colliding(query: &Query) -> Result<String> {
    Printer::new(false).query(query).map(|(text, _)| text)
}

/// The same query with all columns and relations renamed apart.
pub fn apart(query: &Query) -> Result<String> {
    Printer::new(true)
        .query(&inline_ctes(query))
        .map(|(text, _)| text)
}

/// A column as seen from outside: which one, and its name if it has one.
pub type Named = (Col, Option<String>);

/// A relation in a scope.
#[derive(Clone, Debug)]
pub struct Relation {
    /// `None` for a derived table without an alias
    pub alias: Option<String>,
    pub columns: Vec<Named>,
}

/// The relations that an expression can refer to, the nearest scope last.
#[derive(Clone, Debug, Default)]
pub struct Scopes(pub Vec<Vec<Relation>>);

impl Scopes {
    /// How to write a reference, or `None` where no name means the column.
    pub fn resolve(&self, id: u32, bare: bool) -> Option<String> {
        let (depth, relation, name) =
            self.0.iter().enumerate().rev().find_map(|(depth, scope)| {
                scope.iter().find_map(|relation| {
                    let column = relation.columns.iter().find(|(col, _)| col.id == id)?;
                    Some((depth, relation, column.1.as_ref()))
                })
            })?;
        let name = name?;
        let count = |relation: &Relation| {
            let same = |column: &&Named| column.1.as_ref() == Some(name);
            relation.columns.iter().filter(same).count()
        };
        let nearer = || self.0[depth + 1..].iter().flatten();
        let unqualified = self.0[depth].iter().map(count).sum::<usize>() == 1
            && nearer().all(|other| count(other) == 0);
        let qualifier = relation.alias.as_ref().filter(|alias| {
            count(relation) == 1
                && nearer().all(|other| other.alias.as_ref() != Some(*alias))
        });
        match qualifier {
            Some(alias) if !(bare && unqualified) => Some(format!("{alias}.{name}")),
            _ if unqualified => Some(name.clone()),
            _ => None,
        }
    }

    /// The columns of a scope that can be written, in order. `up` counts from the
    /// nearest scope.
    pub fn columns(&self, up: usize) -> Vec<Col> {
        let Some(scope) = self.0.len().checked_sub(up + 1).map(|at| &self.0[at]) else {
            return vec![];
        };
        scope
            .iter()
            .flat_map(|relation| &relation.columns)
            .map(|(col, _)| *col)
            .filter(|col| self.resolve(col.id, false).is_some())
            .collect()
    }

    /// The name of a column, unqualified.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .flatten()
            .flat_map(|relation| &relation.columns)
            .find(|(col, _)| col.id == id)
            .and_then(|(_, name)| name.as_deref())
    }
}

/// The names that a relation gives its columns, and its own.
pub fn exposed(
    leaf: &Leaf,
    outputs: &[Option<String>],
    own_name: Option<&str>,
) -> Relation {
    let alias = leaf.alias.or(own_name).map(str::to_string);
    let names: Vec<Option<String>> = match &leaf.names {
        Some(names) => names.iter().map(|name| Some(name.to_string())).collect(),
        None => outputs.to_vec(),
    };
    Relation {
        alias,
        columns: leaf.cols.iter().copied().zip(names).collect(),
    }
}

/// The names of the outputs of a select list whose inputs are the nearest scope.
pub fn item_name(item: &Item, group: Option<&Group>, scopes: &Scopes) -> Option<String> {
    if let Some(name) = item.name {
        return Some(name.to_string());
    }
    let expr = match &item.expr {
        Expr::Key(key, _) => group?.keys.get(*key)?,
        expr => expr,
    };
    match expr {
        Expr::Col { col, .. } => scopes.name(col.id).map(str::to_string),
        _ => None,
    }
}

/// A text and the names of the outputs.
type Printed = (String, Vec<Option<String>>);

/// A text, the names of the outputs, and the name of the whole.
type Scan = (String, Vec<Option<String>>, Option<String>);

struct Printer {
    apart: bool,
    scopes: Scopes,
    /// Identity, name and names of the outputs; those defined last hide others
    ctes: Vec<(u32, &'static str, Vec<Option<String>>)>,
    /// Never leave a qualifier out
    qualified: bool,
    /// Scans of each table so far
    scans: [usize; TABLES.len()],
    /// Relations so far
    relations: usize,
}

impl Printer {
    fn new(apart: bool) -> Self {
        Self {
            apart,
            scopes: Scopes::default(),
            ctes: vec![],
            qualified: apart,
            scans: [0; TABLES.len()],
            relations: 0,
        }
    }

    fn query(&mut self, query: &Query) -> Result<Printed> {
        let visible = self.ctes.len();
        let mut text = String::new();
        for cte in &query.ctes {
            let (definition, names) = self.query(&cte.query)?;
            let start = if text.is_empty() { "WITH" } else { "," };
            let _ = write!(text, "{start} {} AS ({definition})", cte.name);
            self.ctes.push((cte.id, cte.name, names));
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let by: &[Expr] = match &query.order {
            Order::By(exprs) => exprs,
            _ => &[],
        };
        let (body, names) = match &query.body {
            Body::Select(select) => self.select(select, by)?,
            Body::Set(_) if !by.is_empty() => return fail("no inputs to order by"),
            Body::Set(set) => self.set(set)?,
        };
        text.push_str(&body);
        if let Order::All(limit) = query.order {
            let positions: Vec<String> =
                (1..=names.len()).map(|n| n.to_string()).collect();
            let _ = write!(text, " ORDER BY {} LIMIT {limit}", positions.join(", "));
        }
        self.ctes.truncate(visible);
        Ok((text, names))
    }

    fn body(&mut self, body: &Body) -> Result<Printed> {
        match body {
            Body::Select(select) => self.select(select, &[]),
            Body::Set(set) => self.set(set),
        }
    }

    fn set(&mut self, set: &SetOp) -> Result<Printed> {
        let (left, names) = self.body(&set.left)?;
        let (right, others) = self.body(&set.right)?;
        if names.len() != others.len() {
            return fail("branches of different width");
        }
        let operator = match set.kind {
            SetKind::UnionAll => "UNION ALL",
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        };
        Ok((format!("({left}) {operator} ({right})"), names))
    }

    fn select(&mut self, select: &Select, order: &[Expr]) -> Result<Printed> {
        let (mut from, first) = self.leaf(&select.first)?;
        let mut scope = vec![first];
        for join in &select.joins {
            let (text, relation) = self.leaf(&join.leaf)?;
            let clash =
                |other: &Relation| other.alias.is_none() || other.alias == relation.alias;
            if relation.alias.is_none() || scope.iter().any(clash) {
                return fail("two relations of one name, or one without");
            }
            scope.push(relation);
            let kind = match (&join.on, join.kind) {
                (None, _) => "CROSS JOIN",
                (_, JoinKind::Inner) => "JOIN",
                (_, JoinKind::Left) => "LEFT JOIN",
                (_, JoinKind::Right) => "RIGHT JOIN",
                (_, JoinKind::Full) => "FULL JOIN",
            };
            let _ = write!(from, " {kind} {text}");
            if let Some(on) = &join.on {
                self.scopes.0.push(scope);
                let condition = match self.using_name(on).filter(|_| join.using) {
                    Some(name) => Ok(format!("USING ({name})")),
                    None if join.using && !self.apart => fail("USING of two names"),
                    None => self.expr(on, None).map(|on| format!("ON {on}")),
                };
                scope = self.scopes.0.pop().unwrap_or_default();
                let _ = write!(from, " {}", condition?);
            }
        }
        self.scopes.0.push(scope);
        let printed = self.clauses(select, order, &from);
        self.scopes.0.pop();
        printed
    }

    /// The name that both sides of a comparison have, if each side has it once.
    fn using_name(&self, on: &Expr) -> Option<String> {
        let Expr::Binary(Op::Eq, left, right) = on else {
            return None;
        };
        let (Expr::Col { col: left, .. }, Expr::Col { col: right, .. }) =
            (&**left, &**right)
        else {
            return None;
        };
        let scope = self.scopes.0.last()?;
        let name = self.scopes.name(left.id)?.to_string();
        let places: Vec<(usize, u32)> = scope
            .iter()
            .enumerate()
            .flat_map(|(at, relation)| {
                relation.columns.iter().map(move |column| (at, column))
            })
            .filter(|(_, (_, other))| other.as_ref() == Some(&name))
            .map(|(at, (col, _))| (at, col.id))
            .collect();
        let last = scope.len() - 1;
        match places[..] {
            [(_, first), (at, second)]
                if at == last && first == left.id && second == right.id =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// What a select is made of, in its own scope.
    fn clauses(
        &mut self,
        select: &Select,
        order: &[Expr],
        from: &str,
    ) -> Result<Printed> {
        let group = select.group.as_ref();
        // Without qualifiers HAVING and ORDER BY would find the outputs first.
        let unqualified = select.first.alias.is_none()
            && matches!(select.first.source, Source::Derived(_));
        let having = group.is_some_and(|group| group.having.is_some());
        if unqualified && (having || !order.is_empty()) {
            return fail("HAVING or ORDER BY without qualifiers");
        }
        let qualified = self.qualified;
        self.qualified |= group.is_some();
        let mut items = vec![];
        let mut names = vec![];
        for item in &select.items {
            let text = self.expr(&item.expr, group)?;
            let name = if self.apart {
                Some(format!("c{}", item.col.id))
            } else {
                item_name(item, group, &self.scopes)
            };
            let alias = if self.apart {
                name.clone()
            } else {
                item.name.map(str::to_string)
            };
            items.push(match alias {
                Some(alias) => format!("{text} AS {alias}"),
                None => text,
            });
            names.push(name);
        }
        let distinct = if select.distinct { "DISTINCT " } else { "" };
        let mut text = format!("SELECT {distinct}{} FROM {from}", items.join(", "));
        if let Some(filter) = &select.filter {
            let _ = write!(text, " WHERE {}", self.expr(filter, None)?);
        }
        if let Some(Group { keys, having }) = group {
            if !keys.is_empty() {
                let _ = write!(text, " GROUP BY {}", self.list(keys, None)?);
            }
            if let Some(having) = having {
                let _ = write!(text, " HAVING {}", self.expr(having, group)?);
            }
        }
        if !order.is_empty() {
            self.qualified = true;
            let _ = write!(text, " ORDER BY {}", self.list(order, None)?);
        }
        self.qualified = qualified;
        Ok((text, names))
    }

    /// A relation, which does not see the scope that it is to be part of.
    fn leaf(&mut self, leaf: &Leaf) -> Result<(String, Relation)> {
        self.relations += 1;
        let ordinal = self.relations;
        let (mut text, outputs, own_name) = match &leaf.source {
            Source::Table(index) => self.table(*index)?,
            Source::Cte(id) => {
                let name = self.ctes.iter().find(|cte| cte.0 == *id).map(|cte| cte.1);
                let nearest = self.ctes.iter().rev().find(|cte| Some(cte.1) == name);
                match nearest {
                    Some((found, name, names)) if found == id => {
                        (name.to_string(), names.clone(), Some(name.to_string()))
                    }
                    Some(_) => return fail("another CTE of that name is nearer"),
                    None => return fail("no such CTE"),
                }
            }
            Source::Derived(query) => {
                let (text, names) = self.query(query)?;
                (format!("({text})"), names, None)
            }
        };
        if outputs.len() != leaf.cols.len() {
            return fail("a relation of another width than its source");
        }
        if self.apart {
            // Without an alias a table would go by its name, which no other scan has.
            let alias = leaf.alias.map(|_| format!("r{ordinal}"));
            if let Some(alias) = &alias {
                let _ = write!(text, " AS {alias}");
            }
            let relation = Relation {
                alias: alias.or(own_name),
                columns: leaf.cols.iter().copied().zip(outputs).collect(),
            };
            return Ok((text, relation));
        }
        if let Some(alias) = leaf.alias {
            let _ = write!(text, " AS {alias}");
        }
        if let Some(names) = &leaf.names {
            if leaf.alias.is_none() || names.len() != leaf.cols.len() {
                return fail("names without an alias, or not one for each column");
            }
            let _ = write!(text, " ({})", names.join(", "));
        }
        let relation = exposed(leaf, &outputs, own_name.as_deref());
        Ok((text, relation))
    }

    /// A scan: its text, its columns, its name.
    fn table(&mut self, index: usize) -> Result<Scan> {
        let table = &TABLES[index];
        if !self.apart {
            let names = table.columns.iter().map(|(name, _)| Some(name.to_string()));
            let name = table.name.to_string();
            return Ok((name.clone(), names.collect(), Some(name)));
        }
        let copy = self.scans[index];
        self.scans[index] += 1;
        if copy >= COPIES {
            return fail("too many scans of one table");
        }
        let names = table.copy_columns(copy).into_iter().map(Some).collect();
        let name = table.copy(copy);
        Ok((name.clone(), names, Some(name)))
    }

    fn list(&mut self, exprs: &[Expr], group: Option<&Group>) -> Result<String> {
        let texts: Result<Vec<String>> =
            exprs.iter().map(|expr| self.expr(expr, group)).collect();
        Ok(texts?.join(", "))
    }

    /// A subquery, which has a clause structure of its own.
    fn subquery(&mut self, query: &Query) -> Result<String> {
        let qualified = std::mem::replace(&mut self.qualified, self.apart);
        let printed = self.query(query);
        self.qualified = qualified;
        Ok(printed?.0)
    }

    /// An expression, in parentheses where it has parts that could be taken apart.
    fn expr(&mut self, expr: &Expr, group: Option<&Group>) -> Result<String> {
        Ok(match expr {
            Expr::Col { col, bare } => {
                match self.scopes.resolve(col.id, *bare && !self.qualified) {
                    Some(name) => name,
                    None => return fail(format!("no name means column {}", col.id)),
                }
            }
            Expr::Key(key, _) => match group.and_then(|group| group.keys.get(*key)) {
                Some(key) => self.expr(key, None)?,
                None => return fail("no such key"),
            },
            Expr::Literal(literal) => match literal {
                Literal::Int(value) => value.to_string(),
                Literal::Text(text) => format!("'{text}'"),
                Literal::Bool(value) => value.to_string().to_uppercase(),
                Literal::Null(ty) => format!("CAST(NULL AS {})", ty.sql()),
            },
            Expr::Field(base, field) => format!("{}['{field}']", self.expr(base, group)?),
            Expr::Neg(expr) => format!("(- {})", self.expr(expr, group)?),
            Expr::Not(expr) => format!("(NOT {})", self.expr(expr, group)?),
            Expr::IsNull(expr) => format!("({} IS NULL)", self.expr(expr, group)?),
            Expr::Binary(op, left, right) => format!(
                "({} {} {})",
                self.expr(left, group)?,
                operator(*op),
                self.expr(right, group)?
            ),
            // Not every text is a number.
            Expr::Cast(ty, expr) => {
                let tried = ty.is_number() && !expr.ty().is_number();
                let cast = if tried { "TRY_CAST" } else { "CAST" };
                format!("{cast}({} AS {})", self.expr(expr, group)?, ty.sql())
            }
            Expr::Case(parts) => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.expr(&parts[0], group)?,
                self.expr(&parts[1], group)?,
                self.expr(&parts[2], group)?
            ),
            Expr::Aggregate {
                function,
                distinct,
                arg,
                filter,
            } => {
                let arg = match arg {
                    Some(arg) => self.expr(arg, None)?,
                    None => "*".to_string(),
                };
                let distinct = if *distinct { "DISTINCT " } else { "" };
                let mut text = format!("{}({distinct}{arg})", call(*function));
                if let Some(filter) = filter {
                    let filter = self.expr(filter, None)?;
                    let _ = write!(text, " FILTER (WHERE {filter})");
                }
                text
            }
            Expr::Window {
                function,
                arg,
                partition,
                order,
            } => {
                let arg = match arg {
                    Some(arg) => self.expr(arg, group)?,
                    None if *function == Function::Rank => String::new(),
                    None => "*".to_string(),
                };
                let mut clauses = vec![];
                if !partition.is_empty() {
                    clauses
                        .push(format!("PARTITION BY {}", self.list(partition, group)?));
                }
                if !order.is_empty() {
                    clauses.push(format!("ORDER BY {}", self.list(order, group)?));
                }
                format!("{}({arg}) OVER ({})", call(*function), clauses.join(" "))
            }
            Expr::Unnest(list) => format!("unnest({})", self.expr(list, group)?),
            Expr::Exists { not, query } => {
                format!("({}EXISTS ({}))", negation(*not), self.subquery(query)?)
            }
            Expr::In { not, expr, query } => format!(
                "({} {}IN ({}))",
                self.expr(expr, group)?,
                negation(*not),
                self.subquery(query)?
            ),
            Expr::Scalar(query) => format!("({})", self.subquery(query)?),
            Expr::Quantified {
                op,
                all,
                expr,
                query,
            } => format!(
                "({} {} {} ({}))",
                self.expr(expr, group)?,
                operator(*op),
                if *all { "ALL" } else { "ANY" },
                self.subquery(query)?
            ),
        })
    }
}

fn negation(not: bool) -> &'static str {
    if not { "NOT " } else { "" }
}

fn operator(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Eq => "=",
        Op::Ne => "<>",
        Op::Lt => "<",
        Op::Gt => ">",
        Op::IsNotDistinct => "IS NOT DISTINCT FROM",
        Op::And => "AND",
        Op::Or => "OR",
    }
}

fn call(function: Function) -> &'static str {
    match function {
        Function::Count => "count",
        Function::Sum => "sum",
        Function::Min => "min",
        Function::Max => "max",
        Function::Rank => "rank",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Type;
    use crate::generate::statement;
    use std::collections::BTreeSet;

    fn relation(alias: Option<&str>, columns: &[(u32, &str)]) -> Relation {
        let columns = columns.iter().map(|(id, name)| {
            let ty = Type::Int;
            (Col { id: *id, ty }, Some(name.to_string()))
        });
        Relation {
            alias: alias.map(str::to_string),
            columns: columns.collect(),
        }
    }

    #[test]
    fn names_mean_what_sql_says() {
        let scopes = Scopes(vec![
            vec![
                relation(Some("x"), &[(1, "a"), (2, "b")]),
                relation(Some("y"), &[(3, "a"), (4, "d")]),
            ],
            vec![relation(Some("x"), &[(5, "a"), (6, "c"), (7, "c")])],
        ]);
        let name = |id, bare| scopes.resolve(id, bare);
        // The nearest scope wins.
        assert_eq!(name(5, true).as_deref(), Some("a"));
        assert_eq!(name(5, false).as_deref(), Some("x.a"));
        // The qualifier is hidden, and so is the name.
        assert_eq!(name(1, false), None);
        // The qualifier is hidden, the name is not.
        assert_eq!(name(2, false).as_deref(), Some("b"));
        // The name is hidden, the qualifier is not.
        assert_eq!(name(3, true).as_deref(), Some("y.a"));
        assert_eq!(name(4, true).as_deref(), Some("d"));
        // Two columns of one name.
        assert_eq!(name(6, false), None);
        assert_eq!(name(8, false), None);
        assert_eq!(scopes.columns(0).len(), 1);
        assert_eq!(scopes.columns(1).len(), 3);
        assert_eq!(scopes.columns(2).len(), 0);
    }

    #[test]
    fn without_a_qualifier_a_name_has_to_be_unique() {
        let scope = vec![relation(None, &[(1, "a"), (2, "b"), (3, "b")])];
        let scopes = Scopes(vec![scope]);
        assert_eq!(scopes.resolve(1, false).as_deref(), Some("a"));
        assert_eq!(scopes.resolve(2, true), None);
    }

    #[test]
    fn both_texts_have_one_structure() {
        let mut compared = 0;
        for number in 0..500 {
            let query = statement(5, number);
            let (one, other) = (colliding(&query).unwrap(), apart(&query).unwrap());
            if one.contains("WITH ") {
                continue;
            }
            let without_using = one.replace(" USING (", " ON ");
            for word in ["SELECT ", " FROM ", " JOIN ", " ON ", " WHERE ", "EXISTS"] {
                assert_eq!(
                    without_using.matches(word).count(),
                    other.matches(word).count(),
                    "{word}: {one}\n{other}"
                );
            }
            compared += 1;
        }
        assert!(compared > 200, "{compared}");
    }

    #[test]
    fn renamed_apart_no_name_is_defined_twice() {
        for number in 0..500 {
            let text = apart(&statement(6, number)).unwrap();
            let mut names = BTreeSet::new();
            for definition in text.split(" AS ").skip(1) {
                let name: String = definition
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric())
                    .collect();
                // Types of casts are written in upper case.
                if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                    assert!(names.insert(name.clone()), "{name}: {text}");
                }
            }
        }
    }
}
