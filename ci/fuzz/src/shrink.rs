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
//! Makes a failing statement small.
//!
//! The greedy form of hierarchical delta debugging (Misherghi and Su, 2006), with
//! edits that know the grammar, as C-Reduce has for what Csmith finds: outermost nodes
//! first, each edit kept if the failure is still the same, until none helps. An edit
//! may leave references to nothing behind: constants take their place. It may make a
//! name ambiguous: then the statement cannot be written and the edit is not kept.

use std::collections::BTreeMap;

use crate::ast::{
    Body, Col, Expr, Group, JoinKind, Leaf, Literal, Order, Query, Select, SetKind,
    SetOp, Source, Type, Visitor, for_each_expr, inline_ctes, next_id, referable,
    replace, walk,
};
use crate::tables::TABLES;

/// Shrinks a query for which `fails` holds, with at most `steps` calls of it.
pub fn shrink(
    query: &Query,
    steps: usize,
    fails: &mut dyn FnMut(&Query) -> bool,
) -> Query {
    let mut best = query.clone();
    let mut steps = steps;
    loop {
        let mut smaller = false;
        let mut number = 0;
        while let Some(candidate) = edited(&best, number) {
            if candidate == best {
                number += 1;
                continue;
            }
            if steps == 0 {
                return best;
            }
            steps -= 1;
            if fails(&candidate) {
                // The edits after this one have moved into its place.
                best = candidate;
                smaller = true;
            } else {
                number += 1;
            }
        }
        if !smaller {
            return best;
        }
    }
}

/// The query after the edit of a number, or `None` if there are not so many.
fn edited(query: &Query, number: usize) -> Option<Query> {
    let mut editor = Editor {
        left: number,
        done: false,
        next: next_id(query),
        replaced: BTreeMap::new(),
        narrowed: None,
    };
    let mut query = editor.root(query);
    if !editor.done {
        walk(&mut query, &mut editor);
    }
    if !editor.done {
        return None;
    }
    if let Some((cte, output)) = editor.narrowed {
        walk(&mut query, &mut Narrow { cte, output });
    }
    replace(&mut query, &editor.replaced);
    let known = referable(&query);
    for_each_expr(&mut query, |expr| {
        if let Expr::Col { col, .. } = expr
            && !known.contains(&col.id)
        {
            *expr = constant(col.ty);
        }
    });
    Some(query)
}

/// Something of a type that refers to nothing.
fn constant(ty: Type) -> Expr {
    Expr::Literal(match ty {
        Type::Int | Type::Big => Literal::Int(1),
        Type::Text => Literal::Text("1"),
        Type::Bool => Literal::Bool(true),
        Type::Struct | Type::List => Literal::Null(ty),
    })
}

/// Does one edit, the one that it comes to after `left` others.
struct Editor {
    left: usize,
    done: bool,
    /// The next number of a column
    next: u32,
    /// What takes the place of references
    replaced: BTreeMap<u32, Expr>,
    /// A CTE that has lost an output
    narrowed: Option<(u32, usize)>,
}

impl Editor {
    /// Whether the edit to do is the one that is to follow.
    fn here(&mut self) -> bool {
        if self.done {
            return false;
        }
        self.done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.done
    }

    /// Edits of the whole.
    fn root(&mut self, query: &Query) -> Query {
        struct Parts(Vec<Query>);
        impl Visitor for Parts {
            fn query(&mut self, query: &mut Query) {
                self.0.push(query.clone());
            }
        }
        let inlined = inline_ctes(query);
        let mut parts = Parts(vec![]);
        walk(&mut inlined.clone(), &mut parts);
        // The first part is the whole, the smallest ones are the last.
        for part in parts.0.into_iter().skip(1).rev() {
            if self.here() {
                return part;
            }
        }
        if inlined != *query && self.here() {
            return inlined;
        }
        let mut query = query.clone();
        self.narrow(&mut query);
        query
    }

    /// Takes an output away.
    fn narrow(&mut self, query: &mut Query) -> Option<usize> {
        let width = query.types().len();
        if width < 2 {
            return None;
        }
        let output = (0..width).find(|_| self.here())?;
        drop_output(&mut query.body, output);
        Some(output)
    }

    /// Puts a table in the place of a relation. Its columns are found by their type.
    fn table(&mut self, leaf: &mut Leaf, index: usize) {
        let mut cols = vec![];
        for (_, ty) in TABLES[index].columns {
            cols.push(Col {
                id: self.next,
                ty: *ty,
            });
            self.next += 1;
        }
        for col in &leaf.cols {
            self.redirect(*col, &cols);
        }
        leaf.source = Source::Table(index);
        leaf.cols = cols;
        leaf.names = None;
    }

    /// Lets references to a column go to one of others.
    fn redirect(&mut self, col: Col, others: &[Col]) {
        let same = others.iter().find(|other| other.ty == col.ty);
        let near = || {
            others
                .iter()
                .find(|o| o.ty.is_number() && col.ty.is_number())
        };
        let expr = match same.or_else(near) {
            Some(other) => Expr::col(*other),
            None => constant(col.ty),
        };
        self.replaced.insert(col.id, expr);
    }

    /// Takes a projection away: the relation is then what it reads.
    fn lift(&mut self, leaf: &mut Leaf, select: &Select) {
        let inner = &select.first;
        for (col, item) in leaf.cols.iter().zip(&select.items) {
            match &item.expr {
                Expr::Col { col: read, .. } if inner.cols.contains(read) => {
                    self.replaced.insert(col.id, Expr::col(*read));
                }
                _ => self.redirect(*col, &inner.cols),
            }
        }
        leaf.source = inner.source.clone();
        leaf.cols.clone_from(&inner.cols);
        leaf.names.clone_from(&inner.names);
        leaf.alias = leaf.alias.or(inner.alias);
    }
}

impl Visitor for Editor {
    fn query(&mut self, query: &mut Query) {
        if query.order != Order::None && self.here() {
            query.order = Order::None;
        }
        if let Some(unused) = (0..query.ctes.len()).find(|_| self.here()) {
            query.ctes.remove(unused);
        }
        for cte in &mut query.ctes {
            if let Some(output) = self.narrow(&mut cte.query) {
                self.narrowed = Some((cte.id, output));
            }
        }
        if let Body::Set(set) = &query.body {
            let branches = [&set.left, &set.right];
            let kept = branches.into_iter().find(|_| self.here());
            if let Some(kept) = kept.cloned() {
                query.body = kept;
            }
        }
    }

    fn set(&mut self, set: &mut SetOp) {
        if set.kind != SetKind::UnionAll && self.here() {
            set.kind = SetKind::UnionAll;
        }
    }

    fn select(&mut self, select: &mut Select) {
        for last in (0..select.joins.len()).rev() {
            if self.here() {
                select.joins.remove(last);
            }
        }
        if !select.joins.is_empty() && self.here() {
            select.first = select.joins.remove(0).leaf;
        }
        if select.filter.is_some() && self.here() {
            select.filter = None;
        }
        if select.distinct && self.here() {
            select.distinct = false;
        }
        if let Some(Group { keys, having }) = &mut select.group {
            if having.is_some() && self.here() {
                *having = None;
            }
            if let Some(key) = (0..keys.len()).find(|_| self.here()) {
                keys.remove(key);
                let items = select.items.iter_mut().map(|item| &mut item.expr);
                for expr in items.chain(having) {
                    drop_key(expr, key);
                }
            }
        }
        for join in &mut select.joins {
            if join.kind != JoinKind::Inner && self.here() {
                join.kind = JoinKind::Inner;
            }
            if join.using && self.here() {
                join.using = false;
            }
            if join.on.is_some() && self.here() {
                join.kind = JoinKind::Inner;
                join.using = false;
                join.on = None;
            }
        }
    }

    fn leaf(&mut self, leaf: &mut Leaf) {
        let tables = match leaf.source {
            Source::Table(index) => index,
            _ => TABLES.len(),
        };
        if let Some(index) = (0..tables).find(|_| self.here()) {
            self.table(leaf, index);
            return;
        }
        if leaf.names.is_some() && self.here() {
            leaf.names = None;
        }
        if let Source::Derived(query) = &leaf.source
            && let Body::Select(select) = &query.body
            && select.joins.is_empty()
            && self.here()
        {
            let select = select.clone();
            self.lift(leaf, &select);
            return;
        }
        if let Source::Derived(query) = &mut leaf.source
            && let Some(output) = self.narrow(query)
        {
            drop_col(leaf, output);
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        let ty = expr.ty();
        let children: Vec<Expr> =
            expr.children_mut().into_iter().map(|e| e.clone()).collect();
        for child in children {
            let other = child.ty();
            // In a select list a number may take the place of a text.
            let fits = other == ty || (other.is_scalar() && ty != Type::Bool);
            if fits && self.here() {
                *expr = child;
                return;
            }
        }
        let simple = matches!(expr, Expr::Col { .. } | Expr::Key(..) | Expr::Literal(_));
        if !simple && ty.is_scalar() && self.here() {
            *expr = constant(ty);
            return;
        }
        match expr {
            Expr::Col { bare, .. } => {
                if *bare && self.here() {
                    *bare = false;
                }
            }
            Expr::Aggregate {
                distinct, filter, ..
            } => {
                if *distinct && self.here() {
                    *distinct = false;
                }
                if filter.is_some() && self.here() {
                    *filter = None;
                }
            }
            Expr::Window {
                partition, order, ..
            } => {
                for list in [partition, order] {
                    if !list.is_empty() && self.here() {
                        list.clear();
                    }
                }
            }
            Expr::Exists { not, query } => {
                if *not && self.here() {
                    *not = false;
                }
                self.narrow(query);
            }
            Expr::In { not, .. } => {
                if *not && self.here() {
                    *not = false;
                }
            }
            _ => {}
        }
    }
}

/// Takes a column away from all references to a CTE.
struct Narrow {
    cte: u32,
    output: usize,
}

impl Visitor for Narrow {
    fn leaf(&mut self, leaf: &mut Leaf) {
        if leaf.source == Source::Cte(self.cte) {
            drop_col(leaf, self.output);
        }
    }
}

fn drop_output(body: &mut Body, output: usize) {
    match body {
        Body::Select(select) => {
            select.items.remove(output);
        }
        Body::Set(set) => {
            set.columns.remove(output);
            drop_output(&mut set.left, output);
            drop_output(&mut set.right, output);
        }
    }
}

fn drop_col(leaf: &mut Leaf, at: usize) {
    leaf.cols.remove(at);
    if let Some(names) = &mut leaf.names {
        names.remove(at);
    }
}

fn drop_key(expr: &mut Expr, gone: usize) {
    if let Expr::Key(key, ty) = expr {
        if *key == gone {
            *expr = constant(*ty);
        } else if *key > gone {
            *key -= 1;
        }
        return;
    }
    for child in expr.children_mut() {
        drop_key(child, gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::statement;
    use crate::print;

    /// Shrinks statements that have a text in them.
    fn shrink_to(text: &str) -> Vec<(String, String)> {
        let mut pairs = vec![];
        for number in 0..120 {
            let query = statement(1, number);
            let before = print::colliding(&query).unwrap();
            if !before.contains(text) {
                continue;
            }
            let small = shrink(&query, 5000, &mut |candidate| {
                print::apart(candidate).is_ok()
                    && print::colliding(candidate).is_ok_and(|sql| sql.contains(text))
            });
            let after = print::colliding(&small).unwrap();
            assert!(after.contains(text), "{before}\n{after}");
            assert!(after.len() <= before.len() + 40, "{before}\n{after}");
            pairs.push((before, after));
        }
        assert!(!pairs.is_empty(), "no statement has {text}");
        pairs
    }

    #[test]
    fn keeps_the_failure_and_ends() {
        for text in ["EXISTS", "UNION", "GROUP BY", "CASE", "unnest", "LEFT JOIN"] {
            for (_, after) in shrink_to(text) {
                assert!(after.len() < 250, "{after}");
            }
        }
    }

    #[test]
    fn steps_are_limited() {
        let query = statement(1, 1);
        let mut calls = 0;
        let small = shrink(&query, 3, &mut |_| {
            calls += 1;
            false
        });
        assert!(calls <= 3);
        assert_eq!(small, query);
    }

    #[test]
    fn every_edit_is_a_query_that_refers_to_itself_only() {
        for number in 0..20 {
            let query = statement(2, number);
            let mut edits = 0;
            while let Some(mut candidate) = edited(&query, edits) {
                let known = referable(&candidate);
                for_each_expr(&mut candidate, |expr| {
                    if let Expr::Col { col, .. } = expr {
                        assert!(known.contains(&col.id));
                    }
                });
                edits += 1;
            }
            assert!(edits > 0);
        }
    }
}
