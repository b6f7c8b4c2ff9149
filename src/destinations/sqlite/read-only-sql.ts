/**
 * Decides by the first keyword whether a text is a query. This comes before SQLite sees the text, because SQLite runs some
 * PRAGMAs while it prepares them, also those in an EXPLAIN. Everything unknown is rejected: this is a list of what is allowed.
 *
 * A text that passes is still prepared as a single statement that returns rows and writes nothing (`runQuery`), on a file that
 * is open for reading only. So ATTACH is impossible: it is a statement of its own, and no part of a query.
 */

/** White space and comments as SQLite reads them. Each alternative begins differently, so there is no backtracking. */
const gap = String.raw`(?:[ \t\n\f\r]|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*`
const query = new RegExp(
  `^${gap}(?:explain${gap}(?:query${gap}plan${gap})?)?(?:select|values|with)(?![A-Za-z0-9_$\\u0080-\\uffff])`,
  'i',
)

/** Null, or why the text is rejected. */
export function queryFault(sql: string): string | null {
  // SQLite reads a text only up to the first NUL.
  if (sql.includes('\0')) return 'contains a NUL character'
  return query.test(sql) ? null : notAQuery
}

export const notAQuery = 'must be one SELECT, VALUES or WITH … SELECT, or EXPLAIN of one: a query only reads'
