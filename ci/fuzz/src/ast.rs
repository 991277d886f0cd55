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
//! Queries as data, in which a column has an identity of its own.
//!
//! A reference names the *definition* it means ([`Col`]), never a name. Names are
//! hints for one of the two printers (see [`crate::print`]): the generator draws them
//! so that they collide, and the other printer makes them all different. Only the
//! columns of a [`Leaf`] can be referred to: it takes the outputs of its source by
//! position and gives each an identity of its own, so that a source can be changed or
//! read twice without a thought for who refers to what.

use std::collections::{BTreeMap, BTreeSet};

/// The type of a column or an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    Int,
    Big,
    Text,
    Bool,
    /// `STRUCT<a INT, b INT>`
    Struct,
    /// `INT[]`
    List,
}

impl Type {
    /// Whether values can be sorted, grouped and compared without further ado.
    pub fn is_scalar(self) -> bool {
        !matches!(self, Type::Struct | Type::List)
    }

    pub fn is_number(self) -> bool {
        matches!(self, Type::Int | Type::Big)
    }

    /// Its name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Type::Int => "INT",
            Type::Big => "BIGINT",
            Type::Text => "VARCHAR",
            Type::Bool => "BOOLEAN",
            Type::Struct => "STRUCT<a INT, b INT>",
            Type::List => "INT[]",
        }
    }
}

/// A column: the number of its definition, and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Col {
    pub id: u32,
    pub ty: Type,
}

/// A query with its `WITH` and `ORDER BY` clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub ctes: Vec<Cte>,
    pub body: Body,
    pub order: Order,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// What a reference names; the printed name can be shadowed
    pub id: u32,
    pub name: &'static str,
    pub query: Query,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    Set(Box<SetOp>),
}

/// Only orders that leave the multiset of rows determined.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    None,
    /// By all outputs, with a limit
    All(usize),
    /// By expressions over the inputs of the select
    By(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetOp {
    pub kind: SetKind,
    pub left: Body,
    pub right: Body,
    pub columns: Vec<Col>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    UnionAll,
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub distinct: bool,
    pub first: Leaf,
    pub joins: Vec<Join>,
    pub filter: Option<Expr>,
    pub group: Option<Group>,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub keys: Vec<Expr>,
    pub having: Option<Expr>,
}

/// An entry of a select list.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub col: Col,
    /// Without one, a column keeps its name and anything else has none
    pub name: Option<&'static str>,
    pub expr: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: JoinKind,
    pub leaf: Leaf,
    /// `on` compares two columns of one name: say so with `USING`
    pub using: bool,
    /// `None` is a cross join
    pub on: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

/// A relation in `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Without one, a table or CTE goes by its name, and the columns of a derived
    /// table can only be named without a qualifier
    pub alias: Option<&'static str>,
    pub source: Source,
    /// One for each output of the source
    pub cols: Vec<Col>,
    /// New names, as in `AS x (a, b)`
    pub names: Option<Vec<&'static str>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// An index into [`crate::tables::TABLES`]
    Table(usize),
    Cte(u32),
    Derived(Box<Query>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Int(i64),
    Text(&'static str),
    Bool(bool),
    Null(Type),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Eq,
    Ne,
    Lt,
    Gt,
    IsNotDistinct,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    /// A window function only
    Rank,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Col {
        col: Col,
        /// Print it without a qualifier if it can be understood
        bare: bool,
    },
    /// A group key, by position
    Key(usize, Type),
    Literal(Literal),
    /// A field of a struct
    Field(Box<Expr>, &'static str),
    Neg(Box<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Cast(Type, Box<Expr>),
    /// `CASE WHEN .. THEN .. ELSE .. END`
    Case(Box<[Expr; 3]>),
    Aggregate {
        function: Function,
        distinct: bool,
        /// `None` is `count(*)`
        arg: Option<Box<Expr>>,
        filter: Option<Box<Expr>>,
    },
    Window {
        function: Function,
        arg: Option<Box<Expr>>,
        partition: Vec<Expr>,
        order: Vec<Expr>,
    },
    Unnest(Box<Expr>),
    Exists {
        not: bool,
        query: Box<Query>,
    },
    In {
        not: bool,
        expr: Box<Expr>,
        query: Box<Query>,
    },
    Scalar(Box<Query>),
    /// `expr op ANY (query)` and `ALL`
    Quantified {
        op: Op,
        all: bool,
        expr: Box<Expr>,
        query: Box<Query>,
    },
}

impl Expr {
    pub fn col(col: Col) -> Self {
        Expr::Col { col, bare: false }
    }

    pub fn int(value: i64) -> Self {
        Expr::Literal(Literal::Int(value))
    }

    pub fn binary(op: Op, left: Expr, right: Expr) -> Self {
        Expr::Binary(op, Box::new(left), Box::new(right))
    }

    /// `left AND right`, where there may be no `left`.
    pub fn and(left: Option<Expr>, right: Expr) -> Self {
        match left {
            Some(left) => Expr::binary(Op::And, left, right),
            None => right,
        }
    }

    pub fn ty(&self) -> Type {
        match self {
            Expr::Col { col, .. } => col.ty,
            Expr::Key(_, ty) | Expr::Cast(ty, _) => *ty,
            Expr::Field(..) | Expr::Unnest(_) => Type::Int,
            // A number that is written out is a BIGINT, and so is what it is added to.
            Expr::Literal(Literal::Int(_)) | Expr::Binary(Op::Add | Op::Sub, ..) => {
                Type::Big
            }
            Expr::Literal(Literal::Text(_)) => Type::Text,
            Expr::Literal(Literal::Bool(_)) => Type::Bool,
            Expr::Literal(Literal::Null(ty)) => *ty,
            Expr::Neg(expr) => expr.ty(),
            Expr::Case(parts) => parts[1].ty(),
            Expr::Aggregate { function, arg, .. }
            | Expr::Window { function, arg, .. } => match (function, arg) {
                (Function::Min | Function::Max, Some(arg)) => arg.ty(),
                _ => Type::Big,
            },
            Expr::Scalar(query) => query.types().first().copied().unwrap_or(Type::Int),
            Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::Binary(..)
            | Expr::Exists { .. }
            | Expr::In { .. }
            | Expr::Quantified { .. } => Type::Bool,
        }
    }

    /// The expressions it is made of, without those of a subquery.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Col { .. } | Expr::Key(..) | Expr::Literal(_) => vec![],
            Expr::Exists { .. } | Expr::Scalar(_) => vec![],
            Expr::Field(expr, _)
            | Expr::Neg(expr)
            | Expr::Not(expr)
            | Expr::IsNull(expr)
            | Expr::Cast(_, expr)
            | Expr::Unnest(expr)
            | Expr::In { expr, .. }
            | Expr::Quantified { expr, .. } => vec![&mut **expr],
            Expr::Binary(_, left, right) => vec![&mut **left, &mut **right],
            Expr::Case(parts) => parts.iter_mut().collect(),
            Expr::Aggregate { arg, filter, .. } => arg
                .as_deref_mut()
                .into_iter()
                .chain(filter.as_deref_mut())
                .collect(),
            Expr::Window {
                arg,
                partition,
                order,
                ..
            } => arg
                .as_deref_mut()
                .into_iter()
                .chain(partition)
                .chain(order)
                .collect(),
        }
    }

    /// Its subquery.
    pub fn query_mut(&mut self) -> Option<&mut Query> {
        match self {
            Expr::Exists { query, .. }
            | Expr::In { query, .. }
            | Expr::Scalar(query)
            | Expr::Quantified { query, .. } => Some(query),
            _ => None,
        }
    }
}

impl Query {
    pub fn select(select: Select) -> Self {
        Self {
            ctes: vec![],
            body: Body::Select(Box::new(select)),
            order: Order::None,
        }
    }

    pub fn types(&self) -> Vec<Type> {
        self.body.columns().iter().map(|col| col.ty).collect()
    }
}

impl Body {
    /// The outputs.
    pub fn columns(&self) -> Vec<Col> {
        match self {
            Body::Select(select) => select.items.iter().map(|item| item.col).collect(),
            Body::Set(set) => set.columns.clone(),
        }
    }
}

impl Select {
    /// All its expressions.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (keys, having) = match &mut self.group {
            Some(Group { keys, having }) => (Some(keys), having.as_mut()),
            None => (None, None),
        };
        self.joins
            .iter_mut()
            .filter_map(|join| join.on.as_mut())
            .chain(self.filter.as_mut())
            .chain(keys.into_iter().flatten())
            .chain(having)
            .chain(self.items.iter_mut().map(|item| &mut item.expr))
    }
}

/// Something to do at each node of a query, parents first.
pub trait Visitor {
    fn query(&mut self, _query: &mut Query) {}
    fn set(&mut self, _set: &mut SetOp) {}
    fn select(&mut self, _select: &mut Select) {}
    fn leaf(&mut self, _leaf: &mut Leaf) {}
    fn expr(&mut self, _expr: &mut Expr) {}
}

/// Takes a visitor through a query and all that is in it.
pub fn walk(query: &mut Query, visitor: &mut dyn Visitor) {
    visitor.query(query);
    for cte in &mut query.ctes {
        walk(&mut cte.query, visitor);
    }
    walk_body(&mut query.body, visitor);
    if let Order::By(exprs) = &mut query.order {
        for expr in exprs {
            walk_expr(expr, visitor);
        }
    }
}

fn walk_body(body: &mut Body, visitor: &mut dyn Visitor) {
    match body {
        Body::Set(set) => {
            visitor.set(set);
            walk_body(&mut set.left, visitor);
            walk_body(&mut set.right, visitor);
        }
        Body::Select(select) => {
            visitor.select(select);
            walk_leaf(&mut select.first, visitor);
            for join in &mut select.joins {
                walk_leaf(&mut join.leaf, visitor);
            }
            for expr in select.exprs_mut() {
                walk_expr(expr, visitor);
            }
        }
    }
}

fn walk_leaf(leaf: &mut Leaf, visitor: &mut dyn Visitor) {
    visitor.leaf(leaf);
    if let Source::Derived(query) = &mut leaf.source {
        walk(query, visitor);
    }
}

fn walk_expr(expr: &mut Expr, visitor: &mut dyn Visitor) {
    visitor.expr(expr);
    for child in expr.children_mut() {
        walk_expr(child, visitor);
    }
    if let Some(query) = expr.query_mut() {
        walk(query, visitor);
    }
}

/// Calls a function for each expression.
pub fn for_each_expr(query: &mut Query, call: impl FnMut(&mut Expr)) {
    struct Exprs<F>(F);
    impl<F: FnMut(&mut Expr)> Visitor for Exprs<F> {
        fn expr(&mut self, expr: &mut Expr) {
            (self.0)(expr);
        }
    }
    walk(query, &mut Exprs(call));
}

/// Calls a function for each definition of a column.
fn for_each_definition(query: &mut Query, call: impl FnMut(&mut Col)) {
    struct Definitions<F>(F);
    impl<F: FnMut(&mut Col)> Visitor for Definitions<F> {
        fn set(&mut self, set: &mut SetOp) {
            set.columns.iter_mut().for_each(&mut self.0);
        }
        fn select(&mut self, select: &mut Select) {
            select
                .items
                .iter_mut()
                .for_each(|item| (self.0)(&mut item.col));
        }
        fn leaf(&mut self, leaf: &mut Leaf) {
            leaf.cols.iter_mut().for_each(&mut self.0);
        }
    }
    walk(query, &mut Definitions(call));
}

/// The least number that no column has.
pub fn next_id(query: &Query) -> u32 {
    let mut next = 0;
    for_each_definition(&mut query.clone(), |col| next = next.max(col.id + 1));
    next
}

/// Replaces references. Definitions stay.
pub fn replace(query: &mut Query, map: &BTreeMap<u32, Expr>) {
    for_each_expr(query, |expr| {
        if let Expr::Col { col, .. } = expr
            && let Some(new) = map.get(&col.id)
        {
            *expr = new.clone();
        }
    });
}

/// Gives each column that a query defines a new number.
pub fn freshen(query: &mut Query, next: &mut u32) {
    let mut map = BTreeMap::new();
    for_each_definition(query, |col| {
        map.insert(col.id, *next);
        col.id = *next;
        *next += 1;
    });
    for_each_expr(query, |expr| {
        if let Expr::Col { col, .. } = expr
            && let Some(id) = map.get(&col.id)
        {
            col.id = *id;
        }
    });
}

/// The query without `WITH`: each reference to a CTE has a copy of its own, which goes
/// by the name of the CTE if it has no alias.
pub fn inline_ctes(query: &Query) -> Query {
    struct Inline {
        definitions: BTreeMap<u32, (&'static str, Query)>,
        next: u32,
    }
    impl Visitor for Inline {
        fn query(&mut self, query: &mut Query) {
            // A copy of a query that has CTEs itself overwrites those of the copy
            // before it, whose references are behind us.
            for cte in std::mem::take(&mut query.ctes) {
                self.definitions.insert(cte.id, (cte.name, cte.query));
            }
        }
        fn leaf(&mut self, leaf: &mut Leaf) {
            if let Source::Cte(id) = leaf.source
                && let Some((name, definition)) = self.definitions.get(&id)
            {
                let mut copy = definition.clone();
                leaf.alias = leaf.alias.or(Some(*name));
                freshen(&mut copy, &mut self.next);
                leaf.source = Source::Derived(Box::new(copy));
            }
        }
    }
    let mut query = query.clone();
    let next = next_id(&query);
    walk(
        &mut query,
        &mut Inline {
            definitions: BTreeMap::new(),
            next,
        },
    );
    query
}

/// The columns that can be referred to somewhere in a query.
pub fn referable(query: &Query) -> BTreeSet<u32> {
    struct Leaves(BTreeSet<u32>);
    impl Visitor for Leaves {
        fn leaf(&mut self, leaf: &mut Leaf) {
            self.0.extend(leaf.cols.iter().map(|col| col.id));
        }
    }
    let mut leaves = Leaves(BTreeSet::new());
    walk(&mut query.clone(), &mut leaves);
    leaves.0
}
