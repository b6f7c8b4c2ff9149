/** The destination table as the catalog describes it. */
import { DeliveryError } from '../driver.ts'
import type { PostgresSession } from './connection.ts'
import { quotePostgresTable } from './identifiers.ts'

export interface PostgresColumn {
  name: string
  /** As SQL writes it, with its modifiers: `character varying(20)`. */
  type: string
  /** pg_type.typcategory of the type, or of a domain's base: N number, S string, B boolean, A array, … */
  category: string
  isJson: boolean
  isNotNull: boolean
  /** The default as SQL, where there is one. */
  defaultSql: string | null
  /** Filled in by the server: a default, a serial, an identity. */
  hasDefault: boolean
  /** GENERATED ALWAYS: the server rejects a value. */
  isGenerated: boolean
  /** Its type makes a value of one text; false for arrays, composites, ranges, and what is built of other types. */
  isPlain: boolean
}

export interface Table {
  /** Quoted. */
  name: string
  /** Where it was found, not quoted. */
  schema: string
  /** True for a foreign table: what is stored there is not in this server's transaction. */
  isForeign: boolean
  /** Why COPY would not store there what INSERT does, as the end of a sentence; null if it would. */
  copyObstacle: string | null
  columns: PostgresColumn[]
}

/** Needs PostgreSQL 12 or later. Throws a permanent DeliveryError 42P01 when there is no such table. */
export async function readTable(
  session: PostgresSession,
  table: string,
  signal: AbortSignal,
): Promise<Table> {
  const name = quotePostgresTable(table)
  const rows = await session.run(
    signal,
    `SELECT n.nspname AS schema,
            r.relkind = 'f' AS is_foreign,
            CASE WHEN r.relkind NOT IN ('r', 'p') THEN 'it is not a table but a view or a foreign table'
                 WHEN r.relhasrules THEN 'the table has rules'
                 WHEN r.relrowsecurity THEN 'the table has row-level security' END AS copy_obstacle,
            a.attname AS name,
            format_type(a.atttypid, a.atttypmod) AS type,
            t.typcategory AS category,
            COALESCE(b.typname, t.typname) IN ('json', 'jsonb') AS is_json,
            COALESCE(b.typtype, t.typtype) IN ('b', 'e') AND t.typcategory <> 'A' AS is_plain,
            a.attnotnull AS is_not_null,
            CASE WHEN a.attidentity = 'd' THEN format('nextval(%L)', pg_get_serial_sequence($1, a.attname))
                 WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS default_sql,
            d.oid IS NOT NULL OR a.attidentity <> '' AS has_default,
            a.attgenerated <> '' OR a.attidentity = 'a' AS is_generated
       FROM pg_attribute a
       JOIN pg_class r ON r.oid = a.attrelid
       JOIN pg_namespace n ON n.oid = r.relnamespace
       JOIN pg_type t ON t.oid = a.atttypid
       LEFT JOIN pg_type b ON b.oid = t.typbasetype
       LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
      ORDER BY a.attnum`,
    [name],
  )
  const [first] = rows
  if (first === undefined) {
    throw new DeliveryError(
      'permanent',
      '42P01',
      `Table ${name} does not exist in the database, or has no columns.`,
    )
  }
  return {
    name,
    schema: String(first.schema),
    isForeign: first.is_foreign === true,
    copyObstacle: first.copy_obstacle === null ? null : String(first.copy_obstacle),
    columns: rows.map(toColumn),
  }
}

function toColumn(row: Record<string, unknown>): PostgresColumn {
  return {
    name: String(row.name),
    type: String(row.type),
    category: String(row.category),
    isJson: row.is_json === true,
    isNotNull: row.is_not_null === true,
    defaultSql: row.default_sql === null ? null : String(row.default_sql),
    hasDefault: row.has_default === true,
    isGenerated: row.is_generated === true,
    isPlain: row.is_plain === true,
  }
}
