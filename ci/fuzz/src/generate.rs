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
//! Draws statements in which everything collides.
//!
//! A statement is determined by a seed and a number and by nothing else. The idea of a
//! grammar with scopes that draws only what has a meaning is RAGS' (Slutz, "Massive
//! Stochastic Testing of SQL", 1998). What this generator adds is the aim: names come
//! from a pool of four, and shapes in which two columns get one name, or one column
//! two, are frequent.
//!
//! Correlated references go one level up and stand in `WHERE` only, because nothing
//! else is supported by either engine. Values stay small, and what is ordered or
//! limited is determined, so that every oracle may compare rows.

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::ast::{
    Body, Col, Cte, Expr, Function, Group, Item, Join, JoinKind, Leaf, Literal, Op,
    Order, Query, Select, SetKind, SetOp, Source, Type,
};
use crate::print::{self, Relation, Scopes, exposed, item_name};
use crate::tables::{ALIASES, CTES, NAMES, TABLES};

/// Levels of subqueries below the statement.
const DEPTH: usize = 3;

/// Scans in a statement, those of a CTE counted for each reference.
const SCANS: usize = 6;

/// Makes the same draws for the same seed, whatever the versions of libraries do:
/// only the raw numbers come from one.
pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// A number less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.0.next_u32()) * (n as u64)) >> 32) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| list[self.below(list.len())].clone())
    }

    /// Which of the weights the draw falls on.
    fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut draw = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if draw < *weight {
                return index;
            }
            draw -= weight;
        }
        0
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            let other = self.below(end + 1);
            list.swap(end, other);
        }
    }
}

/// The statement of a seed and a number.
pub fn statement(seed: u64, number: u64) -> Query {
    let mut dice = Dice::new(seed, number);
    // Some draws cannot be written, for example where a name is hidden.
    loop {
        let mut generator = Generator::new(dice);
        let query = generator.statement();
        if print::colliding(&query).is_ok() && print::apart(&query).is_ok() {
            return query;
        }
        dice = generator.dice;
    }
}

/// A query and the names of its outputs.
type Made = (Query, Vec<Option<String>>);

/// What a query is for.
#[derive(Clone, Default)]
struct Want {
    /// Types of the outputs
    types: Option<Vec<Type>>,
    /// Somebody is going to refer to the outputs
    named: bool,
    /// Chance of a correlated predicate, if there is a scope outside
    correlated: usize,
}

/// A CTE that can be referred to.
struct Visible {
    id: u32,
    name: &'static str,
    columns: Vec<(Type, Option<String>)>,
    scans: usize,
    /// Number of the scopes outside, if it reads from them: from further in these would
    /// be more than one level up
    level: Option<usize>,
}

struct Generator {
    dice: Dice,
    next_col: u32,
    next_cte: u32,
    scopes: Scopes,
    ctes: Vec<Visible>,
    /// Scans that are left
    scans: usize,
    /// The outermost scope that was read from a scope further in
    reach: usize,
}

impl Generator {
    fn new(dice: Dice) -> Self {
        Self {
            dice,
            next_col: 0,
            next_cte: 0,
            scopes: Scopes::default(),
            ctes: vec![],
            scans: SCANS,
            reach: usize::MAX,
        }
    }

    fn fresh(&mut self, ty: Type) -> Col {
        self.next_col += 1;
        let id = self.next_col;
        Col { id, ty }
    }

    fn statement(&mut self) -> Query {
        let (query, _) = self.query(DEPTH, &Want::default());
        query
    }

    // Queries

    fn query(&mut self, depth: usize, want: &Want) -> Made {
        let visible = self.ctes.len();
        let mut ctes = vec![];
        if depth > 0 && self.scans >= 3 && self.dice.chance(18) {
            ctes.extend(self.cte(depth));
        }
        let (mut query, names) = if depth > 0 && self.scans >= 2 && self.dice.chance(15) {
            self.set(depth, want)
        } else {
            self.select(depth, want)
        };
        self.ctes.truncate(visible);
        query.ctes = ctes;
        if query.order == Order::None
            && self.scopes.0.is_empty()
            && query.types().into_iter().all(Type::is_scalar)
            && self.dice.chance(6)
        {
            query.order = Order::All(1 + self.dice.below(6));
        }
        if want.types.is_none() && self.dice.chance(if want.named { 30 } else { 15 }) {
            return self.layers((query, names));
        }
        (query, names)
    }

    fn cte(&mut self, depth: usize) -> Option<Cte> {
        let free: Vec<_> = CTES
            .into_iter()
            .filter(|name| self.ctes.iter().all(|cte| cte.name != *name))
            .collect();
        let name = self.dice.pick(&free)?;
        let before = self.scans;
        // Most of what is left has to be there for the references.
        self.scans = self.scans.min(2);
        let given = self.scans;
        let want = Want {
            named: true,
            correlated: 25,
            ..Want::default()
        };
        let level = self.scopes.0.len();
        let before_reach = std::mem::replace(&mut self.reach, usize::MAX);
        let (query, names) = self.query(depth - 1, &want);
        let outside = self.reach < level;
        self.reach = self.reach.min(before_reach);
        let used = given - self.scans;
        self.scans = before;
        self.next_cte += 1;
        let id = self.next_cte;
        self.ctes.push(Visible {
            id,
            name,
            columns: query.types().into_iter().zip(names).collect(),
            scans: used.max(1),
            level: outside.then_some(level),
        });
        Some(Cte { id, name, query })
    }

    fn set(&mut self, depth: usize, want: &Want) -> Made {
        let kind = [
            SetKind::UnionAll,
            SetKind::Union,
            SetKind::Intersect,
            SetKind::Except,
        ][self.dice.weighted(&[60, 15, 13, 12])];
        let mut types = want.types.clone().unwrap_or_else(|| {
            let simple = [Type::Int, Type::Int, Type::Big, Type::Text];
            (0..1 + self.dice.below(3))
                .filter_map(|_| self.dice.pick(&simple))
                .collect()
        });
        let (left, names) = self.branch(depth, &types, want);
        let mut columns: Vec<Type> = types.clone();
        // The output of such a column is neither branch's.
        if want.types.is_none() && types[0] == Type::Int && self.dice.chance(15) {
            types[0] = Type::Big;
            columns[0] = Type::Big;
        }
        let (right, _) = self.branch(depth, &types, want);
        let columns = columns.into_iter().map(|ty| self.fresh(ty)).collect();
        let query = Query {
            ctes: vec![],
            body: Body::Set(Box::new(SetOp {
                kind,
                left,
                right,
                columns,
            })),
            order: Order::None,
        };
        (query, names)
    }

    fn branch(
        &mut self,
        depth: usize,
        types: &[Type],
        want: &Want,
    ) -> (Body, Vec<Option<String>>) {
        let want = Want {
            types: Some(types.to_vec()),
            named: true,
            correlated: want.correlated / 3,
        };
        let (mut query, names) = self.select(depth - 1, &want);
        // A branch that is provably empty goes away.
        if let Body::Select(select) = &mut query.body
            && self.dice.chance(12)
        {
            let never = Expr::binary(Op::Eq, Expr::int(1), Expr::int(2));
            select.filter = Some(Expr::and(select.filter.take(), never));
        }
        (query.body, names)
    }

    /// Projections over a query that rename, swap and compute under the old names, and
    /// often do so twice with the same text.
    fn layers(&mut self, inner: Made) -> Made {
        let (mut query, given) = inner;
        let names: Vec<&'static str> = given
            .iter()
            .filter_map(|name| NAMES.into_iter().find(|n| Some(*n) == name.as_deref()))
            .collect();
        let types = query.types();
        let distinct: BTreeSet<_> = names.iter().collect();
        if names.len() != types.len() || distinct.len() != names.len() {
            return (query, given);
        }
        let twice = self.dice.chance(50);
        let mut order: Vec<usize> = (0..types.len()).collect();
        if twice {
            let one = self.dice.below(order.len());
            let other = self.dice.below(order.len());
            if types[one] == types[other] {
                order.swap(one, other);
            }
        } else {
            self.dice.shuffle(&mut order);
        }
        let changes: Vec<usize> = types.iter().map(|_| self.dice.below(4)).collect();
        let alias = if all_named(&query.body) && self.dice.chance(60) {
            None
        } else {
            self.dice.pick(&ALIASES)
        };
        let bare = self.dice.chance(60);
        let filtered = self.dice.chance(15).then(|| self.dice.below(order.len()));
        for _ in 0..if twice { 2 } else { 1 } {
            let cols: Vec<Col> =
                query.types().into_iter().map(|ty| self.fresh(ty)).collect();
            let reference = |col: Col| Expr::Col { col, bare };
            let exprs: Vec<Expr> = order
                .iter()
                .zip(&changes)
                .map(|(at, change)| {
                    let expr = reference(cols[*at]);
                    match (*change, cols[*at].ty) {
                        (0, Type::Big) => Expr::binary(Op::Add, expr, Expr::int(1)),
                        (1, Type::Int | Type::Big) => Expr::Neg(Box::new(expr)),
                        (1, Type::Bool) => Expr::Not(Box::new(expr)),
                        _ => expr,
                    }
                })
                .collect();
            let filter = filtered
                .map(|at| cols[at])
                .filter(|col| col.ty.is_number())
                .map(|col| Expr::binary(Op::Gt, reference(col), Expr::int(0)));
            let items = exprs
                .into_iter()
                .zip(&names)
                .map(|(expr, name)| Item {
                    col: self.fresh(expr.ty()),
                    name: Some(*name),
                    expr,
                })
                .collect();
            query = Query::select(Select {
                distinct: false,
                first: Leaf {
                    alias,
                    source: Source::Derived(Box::new(query)),
                    cols,
                    names: None,
                },
                joins: vec![],
                filter,
                group: None,
                items,
            });
        }
        (query, names.iter().map(|n| Some(n.to_string())).collect())
    }

    fn select(&mut self, depth: usize, want: &Want) -> Made {
        let (first, joins) = self.relations(depth);
        let mut filter = None;
        if self.dice.chance(45) {
            filter = Some(self.predicate(depth));
        }
        if self.dice.chance(want.correlated) {
            filter = self
                .correlation()
                .map(|c| Expr::and(filter.clone(), c))
                .or(filter);
        }
        let qualified =
            first.alias.is_some() || !matches!(first.source, Source::Derived(_));
        let (group, items) = if qualified && self.dice.chance(22) {
            let (group, items) = self.grouped(want);
            (Some(group), items)
        } else {
            (None, self.items(depth, want))
        };
        let scalar = items.iter().all(|item| item.col.ty.is_scalar());
        let distinct = group.is_none() && scalar && self.dice.chance(8);
        // An order by what is not selected cannot be had through an UNNEST.
        let unnests = items.iter().any(|i| matches!(i.expr, Expr::Unnest(_)));
        let mut order = Order::None;
        if qualified
            && !unnests
            && group.is_none()
            && !distinct
            && want.types.is_none()
            && !want.named
            && self.scopes.0.len() == 1
            && self.dice.chance(10)
        {
            let columns = self.columns(Type::is_scalar);
            order = match self.dice.pick(&columns) {
                Some(col) => Order::By(vec![Expr::col(col)]),
                None => Order::None,
            };
        }
        let names = items
            .iter()
            .map(|item| item_name(item, group.as_ref(), &self.scopes))
            .collect();
        self.scopes.0.pop();
        let mut query = Query::select(Select {
            distinct,
            first,
            joins,
            filter,
            group,
            items,
        });
        query.order = order;
        (query, names)
    }

    // FROM

    /// Relations, whose scope is then the nearest one.
    fn relations(&mut self, depth: usize) -> (Leaf, Vec<Join>) {
        let count = match self.scans {
            0 | 1 => 1,
            2 => 1 + self.dice.weighted(&[60, 40]),
            _ => 1 + self.dice.weighted(&[52, 36, 12]),
        };
        let (first, relation) = self.leaf(depth, &[], count == 1);
        let mut scope = vec![relation];
        let mut joins = vec![];
        for _ in 1..count {
            let (leaf, relation) = self.leaf(depth, &scope, false);
            scope.push(relation);
            self.scopes.0.push(scope);
            joins.push(self.join(depth, leaf));
            scope = self.scopes.0.pop().unwrap_or_default();
        }
        self.scopes.0.push(scope);
        (first, joins)
    }

    /// A relation beside those in `scope`; `alone` if it stays the only one.
    fn leaf(
        &mut self,
        depth: usize,
        scope: &[Relation],
        alone: bool,
    ) -> (Leaf, Relation) {
        let taken = |name: &str| {
            scope
                .iter()
                .any(|relation| relation.alias.as_deref() == Some(name))
        };
        let ctes: Vec<usize> = (0..self.ctes.len())
            .filter(|at| self.ctes[*at].scans <= self.scans)
            .filter(|at| {
                let level = self.ctes[*at].level;
                level.is_none_or(|level| level == self.scopes.0.len())
            })
            .collect();
        let (source, types, outputs, own_name) =
            if !ctes.is_empty() && self.dice.chance(60) {
                let cte = &self.ctes[ctes[self.dice.below(ctes.len())]];
                self.scans -= cte.scans;
                if let Some(level) = cte.level {
                    self.reach = self.reach.min(level.saturating_sub(1));
                }
                let (types, names) =
                    cte.columns.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
                (Source::Cte(cte.id), types, names, Some(cte.name))
            } else if depth > 0 && self.scans > 0 && self.dice.chance(32) {
                let want = Want {
                    named: true,
                    correlated: 25,
                    ..Want::default()
                };
                let (query, names) = self.query(depth - 1, &want);
                let types: Vec<Type> = query.types();
                (Source::Derived(Box::new(query)), types, names, None)
            } else {
                self.scans = self.scans.saturating_sub(1);
                let index = self.dice.weighted(&[34, 26, 26, 14]);
                let table = &TABLES[index];
                let columns = table.columns.iter();
                let (types, names) = columns
                    .map(|(name, ty)| (*ty, Some(name.to_string())))
                    .unzip::<_, _, Vec<_>, Vec<_>>();
                (Source::Table(index), types, names, Some(table.name))
            };
        let types: Vec<Type> = types;
        let outputs: Vec<Option<String>> = outputs;
        let anonymous = match (&source, own_name) {
            (Source::Derived(query), _) => alone && all_named(&query.body),
            (_, Some(name)) => !taken(name),
            _ => false,
        };
        let alias = if anonymous && self.dice.chance(35) {
            None
        } else {
            let free: Vec<_> = ALIASES.into_iter().filter(|name| !taken(name)).collect();
            self.dice.pick(&free)
        };
        let names = (alias.is_some()
            && types.len() <= NAMES.len()
            && self.dice.chance(10))
        .then(|| {
            let mut names = NAMES.to_vec();
            self.dice.shuffle(&mut names);
            names.truncate(types.len());
            names
        });
        let leaf = Leaf {
            alias,
            source,
            cols: types.into_iter().map(|ty| self.fresh(ty)).collect(),
            names,
        };
        let relation = exposed(&leaf, &outputs, own_name);
        (leaf, relation)
    }

    /// How the last relation of the nearest scope joins those before it.
    fn join(&mut self, depth: usize, leaf: Leaf) -> Join {
        let kinds = [
            JoinKind::Inner,
            JoinKind::Left,
            JoinKind::Right,
            JoinKind::Full,
        ];
        let cross = Join {
            kind: JoinKind::Inner,
            leaf,
            using: false,
            on: None,
        };
        if self.dice.chance(10) {
            return cross;
        }
        let mut kind = kinds[self.dice.weighted(&[65, 20, 8, 7])];
        let here = |col: &Col| cross.leaf.cols.iter().any(|own| own.id == col.id);
        let columns = self.columns(Type::is_scalar);
        let (right, left): (Vec<Col>, Vec<Col>) = columns.into_iter().partition(here);
        let mut pairs: Vec<(Col, Col)> = vec![];
        for l in &left {
            for r in right.iter().filter(|r| comparable(l.ty, r.ty)) {
                pairs.push((*l, *r));
                // Joins by one name are what there is most of.
                if self.scopes.name(l.id) == self.scopes.name(r.id) {
                    pairs.extend([(*l, *r); 2]);
                }
            }
        }
        let mut using;
        let mut on = match self.dice.pick(&pairs) {
            Some((left, right)) => {
                using = matches!(kind, JoinKind::Inner | JoinKind::Left)
                    && self.once_each_side(left, right)
                    && self.dice.chance(25);
                Expr::binary(Op::Eq, Expr::col(left), Expr::col(right))
            }
            None => return cross,
        };
        if depth > 0 && self.scans > 0 && self.dice.chance(10) {
            // The predicate of a subquery, and often nothing else.
            let exists = self.exists(depth);
            on = if self.dice.chance(60) {
                exists
            } else {
                Expr::and(Some(on), exists)
            };
            using = false;
            kind = if self.dice.chance(70) {
                JoinKind::Inner
            } else {
                JoinKind::Left
            };
        } else if !using && self.dice.chance(15) {
            on = Expr::and(Some(on), self.comparison());
        }
        Join {
            kind,
            using,
            on: Some(on),
            ..cross
        }
    }

    /// Whether two columns have one name, which no other column of the scope has.
    fn once_each_side(&self, left: Col, right: Col) -> bool {
        let name = self.scopes.name(left.id);
        let same = self
            .scopes
            .0
            .last()
            .into_iter()
            .flatten()
            .flat_map(|relation| &relation.columns)
            .filter(|column| column.1.as_deref() == name)
            .count();
        name.is_some() && name == self.scopes.name(right.id) && same == 2
    }

    // Select lists

    /// The columns of the nearest scope of certain types.
    fn columns(&self, types: impl Fn(Type) -> bool) -> Vec<Col> {
        let columns = self.scopes.columns(0).into_iter();
        columns.filter(|col| types(col.ty)).collect()
    }

    fn reference(&mut self, col: Col) -> Expr {
        Expr::Col {
            col,
            bare: self.dice.chance(35),
        }
    }

    fn items(&mut self, depth: usize, want: &Want) -> Vec<Item> {
        let structs = !self.columns(|ty| ty == Type::Struct).is_empty();
        if want.types.is_none() && self.dice.chance(if structs { 35 } else { 18 }) {
            let items = self.renamed_items();
            if !items.is_empty() {
                return items;
            }
        }
        let mut used = vec![];
        let mut unnested = false;
        let mut items = vec![];
        let count = match &want.types {
            Some(types) => types.len(),
            None => 1 + self.dice.weighted(&[15, 40, 30, 15]),
        };
        for index in 0..count {
            let expr = match &want.types {
                Some(types) => self.value(types[index]),
                None => self.item(depth, &mut unnested),
            };
            items.push(self.named(expr, None, want, &mut used));
        }
        items
    }

    /// Plain columns under each other's names.
    fn renamed_items(&mut self) -> Vec<Item> {
        let mut columns = self.columns(|_| true);
        self.dice.shuffle(&mut columns);
        let mut names: Vec<&'static str> = vec![];
        columns.retain(|col| {
            let name = NAMES
                .into_iter()
                .find(|name| Some(*name) == self.scopes.name(col.id));
            let new = name.filter(|name| !names.contains(name));
            names.extend(new);
            new.is_some()
        });
        let mut shuffled = names.clone();
        self.dice.shuffle(&mut shuffled);
        let mut items = vec![];
        for (col, name) in columns.into_iter().zip(shuffled) {
            items.push(Item {
                col: self.fresh(col.ty),
                name: Some(name),
                expr: self.reference(col),
            });
        }
        items
    }

    /// Gives an expression of a select list a name, most often one that is taken
    /// further in.
    fn named(
        &mut self,
        expr: Expr,
        group: Option<&Group>,
        want: &Want,
        used: &mut Vec<String>,
    ) -> Item {
        let col = self.fresh(expr.ty());
        let mut item = Item {
            col,
            name: None,
            expr,
        };
        let inherited = item_name(&item, group, &self.scopes);
        let free: Vec<&'static str> = NAMES
            .into_iter()
            .filter(|name| !used.iter().any(|other| other == name))
            .collect();
        let old = match &inherited {
            Some(name) => Some(name.clone()),
            None => first_column(&item.expr, group)
                .and_then(|id| self.scopes.name(id).map(str::to_string)),
        };
        let old = free
            .iter()
            .copied()
            .find(|name| Some(*name) == old.as_deref());
        // Rejected so far, and exempt.
        let clash = self.dice.chance(if want.named { 2 } else { 4 });
        item.name = if clash {
            self.dice.pick(&NAMES)
        } else if inherited.is_some() && (old.is_some() || !want.named) {
            if self.dice.chance(50) {
                None
            } else {
                self.dice.pick(&free)
            }
        } else if inherited.is_none() && self.dice.chance(if want.named { 5 } else { 20 })
        {
            None
        } else if old.is_some() && self.dice.chance(75) {
            old
        } else {
            self.dice.pick(&free)
        };
        used.extend(item_name(&item, group, &self.scopes));
        item
    }

    /// An expression for a select list without groups.
    fn item(&mut self, depth: usize, unnested: &mut bool) -> Expr {
        let structs = self.columns(|ty| ty == Type::Struct);
        if !structs.is_empty() && self.dice.chance(35) {
            return self.field(&structs);
        }
        let lists = self.columns(|ty| ty == Type::List);
        if !*unnested && !lists.is_empty() && self.dice.chance(20) {
            *unnested = true;
            let list = lists[self.dice.below(lists.len())];
            return Expr::Unnest(Box::new(self.reference(list)));
        }
        let columns = self.columns(|_| true);
        let Some(col) = self.dice.pick(&columns) else {
            return self.literal(Type::Int);
        };
        let plain = self.reference(col);
        match self.dice.weighted(&[52, 10, 14, 8, 6, 4, 4, 2]) {
            1 if col.ty.is_number() => self.arithmetic(plain),
            2 if col.ty.is_scalar() => self.cast(plain),
            3 => self.window(),
            4 if depth > 0 && self.scans > 0 => self.scalar(depth),
            5 if col.ty.is_scalar() => {
                Expr::Case(Box::new([self.comparison(), plain, self.literal(col.ty)]))
            }
            6 => self.comparison(),
            7 if depth > 0 && self.scans > 0 => self.exists(depth),
            _ => plain,
        }
    }

    /// An expression of a type.
    fn value(&mut self, ty: Type) -> Expr {
        let columns = self.columns(|other| other == ty);
        if !columns.is_empty() && self.dice.chance(75) {
            let col = columns[self.dice.below(columns.len())];
            return self.reference(col);
        }
        let others = self.columns(|other| {
            other.is_scalar() && other != ty && other != Type::Bool && ty != Type::Bool
        });
        match self.dice.pick(&others) {
            Some(other) => Expr::Cast(ty, Box::new(self.reference(other))),
            None => match self.dice.pick(&columns) {
                Some(col) => self.reference(col),
                None => self.literal(ty),
            },
        }
    }

    fn literal(&mut self, ty: Type) -> Expr {
        if ty.is_scalar() && self.dice.chance(85) {
            let text = self.dice.pick(&["0", "1", "2", "3"]).unwrap_or("1");
            let number = Expr::int(self.dice.below(5) as i64);
            return match ty {
                Type::Int => Expr::Cast(Type::Int, Box::new(number)),
                Type::Text => Expr::Literal(Literal::Text(text)),
                Type::Bool => Expr::Literal(Literal::Bool(self.dice.chance(50))),
                _ => number,
            };
        }
        Expr::Literal(Literal::Null(ty))
    }

    fn arithmetic(&mut self, expr: Expr) -> Expr {
        match self.dice.below(3) {
            0 => Expr::binary(Op::Add, expr, Expr::int(1)),
            1 => Expr::binary(Op::Sub, expr, Expr::int(1)),
            _ => Expr::Neg(Box::new(expr)),
        }
    }

    /// A cast, sometimes to the type that it has.
    fn cast(&mut self, expr: Expr) -> Expr {
        let types = match expr.ty() {
            Type::Bool => [Type::Text, Type::Bool, Type::Text],
            _ => [Type::Int, Type::Big, Type::Text],
        };
        Expr::Cast(types[self.dice.below(3)], Box::new(expr))
    }

    fn field(&mut self, structs: &[Col]) -> Expr {
        let base = structs[self.dice.below(structs.len())];
        let field = if self.dice.chance(50) { "a" } else { "b" };
        Expr::Field(Box::new(self.reference(base)), field)
    }

    fn window(&mut self) -> Expr {
        let scalars = self.columns(Type::is_scalar);
        let numbers = self.columns(Type::is_number);
        let some = |dice: &mut Dice, percent| -> Vec<Expr> {
            if dice.chance(percent) {
                dice.pick(&scalars).map(Expr::col).into_iter().collect()
            } else {
                vec![]
            }
        };
        let partition = some(&mut self.dice, 60);
        let mut order = some(&mut self.dice, 35);
        let (function, arg) = match (self.dice.below(5), self.dice.pick(&numbers)) {
            (0, Some(col)) => (Function::Sum, Some(col)),
            (1, Some(col)) => (Function::Min, Some(col)),
            (2, Some(col)) => (Function::Max, Some(col)),
            (3, _) => (Function::Rank, None),
            _ => (Function::Count, None),
        };
        if function == Function::Rank && order.is_empty() {
            order = some(&mut self.dice, 100);
        }
        Expr::Window {
            function,
            arg: arg.map(|col| Box::new(Expr::col(col))),
            partition,
            order,
        }
    }

    // GROUP BY

    fn grouped(&mut self, want: &Want) -> (Group, Vec<Item>) {
        let mut keys: Vec<Expr> = vec![];
        let scalars = self.columns(Type::is_scalar);
        for _ in 0..self.dice.weighted(&[20, 40, 40]) {
            let key = match (keys.first(), self.dice.pick(&scalars)) {
                (Some(first), _) if self.dice.chance(45) => {
                    let first = first.clone();
                    self.cast(first)
                }
                (_, Some(col)) => match self.dice.below(6) {
                    0 => self.cast(Expr::col(col)),
                    1 if col.ty.is_number() => self.arithmetic(Expr::col(col)),
                    _ => Expr::col(col),
                },
                (_, None) => continue,
            };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if self.dice.chance(30) {
            keys.reverse();
        }
        let mut group = Group { keys, having: None };
        let count = match &want.types {
            Some(types) => types.len(),
            None => 1 + self.dice.weighted(&[25, 40, 35]),
        };
        let mut used = vec![];
        let mut items: Vec<Item> = vec![];
        for index in 0..count {
            let ty = want.types.as_ref().map(|types| types[index]);
            let twin = match items.last().map(|item| &item.expr) {
                Some(Expr::Aggregate { .. }) if ty.is_none() && self.dice.chance(30) => {
                    items.last().map(|item| item.expr.clone())
                }
                _ => None,
            };
            let expr = match twin {
                Some(aggregate) => self.twin(aggregate),
                None => self.group_value(&group, ty),
            };
            items.push(self.named(expr, Some(&group), want, &mut used));
        }
        if self.dice.chance(35) {
            let value = self.group_value(&group, None);
            group.having = Some(self.compared(value));
        }
        (group, items)
    }

    /// A key or an aggregate.
    fn group_value(&mut self, group: &Group, ty: Option<Type>) -> Expr {
        let keys: Vec<Expr> = group
            .keys
            .iter()
            .enumerate()
            .map(|(key, expr)| Expr::Key(key, expr.ty()))
            .filter(|key| ty.is_none_or(|ty| ty == key.ty()))
            .collect();
        if self.dice.chance(50)
            && let Some(key) = self.dice.pick(&keys)
        {
            return key;
        }
        self.aggregate(ty)
    }

    fn aggregate(&mut self, ty: Option<Type>) -> Expr {
        let ty = ty.unwrap_or(if self.dice.chance(60) {
            Type::Big
        } else {
            Type::Int
        });
        let numbers = self.columns(Type::is_number);
        let same = self.columns(|other| other == ty);
        let (function, arg) = match self.dice.pick(&numbers) {
            Some(col) if ty == Type::Big && self.dice.chance(70) => {
                let function = if self.dice.chance(60) {
                    Function::Sum
                } else {
                    Function::Count
                };
                let plain = Expr::col(col);
                let arg = if self.dice.chance(25) {
                    self.cast_number(plain)
                } else {
                    plain
                };
                (function, Some(arg))
            }
            _ if ty == Type::Big => (Function::Count, None),
            _ => {
                let function = if self.dice.chance(50) {
                    Function::Min
                } else {
                    Function::Max
                };
                let arg = match self.dice.pick(&same) {
                    Some(col) => Expr::col(col),
                    None => self.value(ty),
                };
                (function, Some(arg))
            }
        };
        let filter = self.dice.chance(8).then(|| Box::new(self.comparison()));
        Expr::Aggregate {
            function,
            distinct: arg.is_some() && self.dice.chance(15),
            arg: arg.map(Box::new),
            filter,
        }
    }

    /// An aggregate that differs from another one by a cast.
    fn twin(&mut self, mut aggregate: Expr) -> Expr {
        if let Expr::Aggregate { arg: Some(arg), .. } = &mut aggregate {
            let plain = std::mem::replace(&mut **arg, Expr::int(0));
            **arg = if plain.ty().is_number() {
                self.cast_number(plain)
            } else {
                Expr::Cast(Type::Text, Box::new(plain))
            };
        }
        aggregate
    }

    fn cast_number(&mut self, expr: Expr) -> Expr {
        let ty = if expr.ty() == Type::Big {
            Type::Int
        } else {
            Type::Big
        };
        Expr::Cast(ty, Box::new(expr))
    }

    // Predicates

    fn predicate(&mut self, depth: usize) -> Expr {
        let nested = depth > 0 && self.scans > 0;
        match self.dice.weighted(&[38, 8, 8, 22, 12, 8, 4]) {
            1 => {
                let operator = if self.dice.chance(50) {
                    Op::And
                } else {
                    Op::Or
                };
                let left = self.predicate(depth);
                Expr::binary(operator, left, self.comparison())
            }
            2 => Expr::Not(Box::new(self.comparison())),
            3 if nested => self.exists(depth),
            4 if nested => {
                let expr = self.operand();
                Expr::In {
                    not: self.dice.chance(30),
                    query: Box::new(self.subquery(depth, Some(expr.ty()), 35)),
                    expr: Box::new(expr),
                }
            }
            5 if nested => {
                let expr = self.operand();
                let ops = [Op::Eq, Op::Lt, Op::Gt];
                let want = Want {
                    types: Some(vec![expr.ty()]),
                    named: false,
                    correlated: 15,
                };
                // The parser takes no set operation after ANY and ALL.
                let (query, _) = self.select(depth - 1, &want);
                Expr::Quantified {
                    op: ops[self.dice.below(3)],
                    all: self.dice.chance(30),
                    query: Box::new(query),
                    expr: Box::new(expr),
                }
            }
            6 if nested => {
                let scalar = self.scalar(depth);
                let number = self.columns(Type::is_number);
                match self.dice.pick(&number) {
                    Some(col) => Expr::binary(Op::Lt, Expr::col(col), scalar),
                    None => Expr::binary(Op::Gt, scalar, Expr::int(0)),
                }
            }
            _ => self.comparison(),
        }
    }

    /// What a subquery is compared with.
    fn operand(&mut self) -> Expr {
        let columns = self.columns(|ty| ty.is_scalar() && ty != Type::Bool);
        match self.dice.pick(&columns) {
            Some(col) => self.reference(col),
            None => self.literal(Type::Int),
        }
    }

    fn comparison(&mut self) -> Expr {
        let columns = self.columns(Type::is_scalar);
        let structs = self.columns(|ty| ty == Type::Struct);
        if !structs.is_empty() && self.dice.chance(20) {
            let field = self.field(&structs);
            return self.compared(field);
        }
        let Some(col) = self.dice.pick(&columns) else {
            return Expr::Literal(Literal::Bool(true));
        };
        let left = self.reference(col);
        let others: Vec<Col> = columns
            .into_iter()
            .filter(|other| other.id != col.id && comparable(col.ty, other.ty))
            .collect();
        match self.dice.pick(&others) {
            Some(other) if self.dice.chance(30) => {
                let ops = [Op::Eq, Op::Ne, Op::Lt, Op::IsNotDistinct];
                let op = ops[self.dice.below(ops.len())];
                Expr::binary(op, left, self.reference(other))
            }
            _ if self.dice.chance(15) => Expr::IsNull(Box::new(left)),
            _ => self.compared(left),
        }
    }

    /// A value compared with a constant.
    fn compared(&mut self, value: Expr) -> Expr {
        match value.ty() {
            Type::Bool => value,
            ty if ty.is_scalar() => {
                let ops = [Op::Eq, Op::Ne, Op::Lt, Op::Gt, Op::Gt];
                let op = ops[self.dice.below(ops.len())];
                let constant = match ty {
                    Type::Text => Expr::Literal(Literal::Text("1")),
                    _ => Expr::int(self.dice.below(4) as i64),
                };
                Expr::binary(op, value, constant)
            }
            _ => Expr::IsNull(Box::new(value)),
        }
    }

    // Subqueries

    /// A comparison of a column of the nearest scope with one of the scope outside.
    fn correlation(&mut self) -> Option<Expr> {
        let simple = |col: &Col| col.ty.is_scalar() && col.ty != Type::Bool;
        let outer: Vec<Col> = self.scopes.columns(1).into_iter().filter(simple).collect();
        let inner = self.columns(Type::is_scalar);
        let mut pairs = vec![];
        for i in &inner {
            for o in outer.iter().filter(|o| comparable(i.ty, o.ty)) {
                pairs.push((*i, *o));
            }
        }
        let (inner, outer) = self.dice.pick(&pairs)?;
        self.reach = self.reach.min(self.scopes.0.len().saturating_sub(2));
        let left = self.reference(inner);
        let right = self.reference(outer);
        let op = [Op::Eq, Op::Lt, Op::Ne][self.dice.weighted(&[82, 10, 8])];
        Some(Expr::binary(op, left, right))
    }

    fn exists(&mut self, depth: usize) -> Expr {
        Expr::Exists {
            not: self.dice.chance(35),
            query: Box::new(self.subquery(depth, None, 85)),
        }
    }

    fn subquery(&mut self, depth: usize, ty: Option<Type>, correlated: usize) -> Query {
        let want = Want {
            types: ty.map(|ty| vec![ty]),
            named: false,
            correlated,
        };
        let (query, _) = if self.dice.chance(75) {
            self.select(depth - 1, &want)
        } else {
            self.query(depth - 1, &want)
        };
        query
    }

    /// A scalar subquery: one aggregate without groups, so that there is one row.
    fn scalar(&mut self, depth: usize) -> Expr {
        let (first, joins) = self.relations(depth - 1);
        let mut filter = None;
        if self.dice.chance(25) {
            filter = Some(self.comparison());
        }
        if self.dice.chance(75) {
            filter = self
                .correlation()
                .map(|c| Expr::and(filter.clone(), c))
                .or(filter);
        }
        let expr = self.aggregate(None);
        let item = Item {
            col: self.fresh(expr.ty()),
            name: None,
            expr,
        };
        self.scopes.0.pop();
        let group = Some(Group {
            keys: vec![],
            having: None,
        });
        Expr::Scalar(Box::new(Query::select(Select {
            distinct: false,
            first,
            joins,
            filter,
            group,
            items: vec![item],
        })))
    }
}

/// Whether every output has a name that is written out.
fn all_named(body: &Body) -> bool {
    match body {
        Body::Select(select) => {
            let names: BTreeSet<_> = select.items.iter().map(|item| item.name).collect();
            !names.contains(&None) && names.len() == select.items.len()
        }
        Body::Set(set) => all_named(&set.left),
    }
}

fn comparable(one: Type, other: Type) -> bool {
    one == other || (one.is_number() && other.is_number())
}

/// The first column that an expression reads.
fn first_column(expr: &Expr, group: Option<&Group>) -> Option<u32> {
    match expr {
        Expr::Col { col, .. } => Some(col.id),
        Expr::Key(key, _) => first_column(group?.keys.get(*key)?, None),
        _ => {
            let mut expr = expr.clone();
            let mut children = expr.children_mut().into_iter();
            children.find_map(|child| first_column(child, group))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_are_a_statement() {
        for number in 0..50 {
            assert_eq!(statement(7, number), statement(7, number));
        }
        let all: BTreeSet<String> = (0..50)
            .map(|number| print::colliding(&statement(7, number)).unwrap())
            .collect();
        assert!(all.len() > 45);
        assert_ne!(statement(7, 3), statement(8, 3));
    }

    /// The printers look up each reference by the rules of SQL, apart from the
    /// generator's own bookkeeping.
    #[test]
    fn every_reference_can_be_written() {
        for number in 0..2000 {
            let query = statement(1, number);
            print::colliding(&query).unwrap();
            print::apart(&query).unwrap();
        }
    }

    #[test]
    fn a_cte_is_joined_under_its_own_name() {
        let joined = (0..2000).any(|number| {
            let sql = print::colliding(&statement(1, number)).unwrap();
            [" JOIN p ON ", " JOIN q ON "]
                .iter()
                .any(|join| sql.contains(join))
        });
        assert!(joined);
    }

    #[test]
    fn most_draws_can_be_written() {
        let mut dice = Dice::new(1, 0);
        let mut printed = 0;
        for _ in 0..1000 {
            let mut generator = Generator::new(dice);
            let query = generator.statement();
            printed += usize::from(print::colliding(&query).is_ok());
            dice = generator.dice;
        }
        assert!(printed > 800, "{printed}");
    }
}
