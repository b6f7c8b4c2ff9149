/**
 * Kysely's dialect for PostgreSQL. It maps the column types of tables, so that one migration works for SQLite and
 * PostgreSQL:
 *
 *   integer   bigint, because SQLite's integers have 64 bits
 *   text      sorted and compared by bytes like in SQLite, whatever the database's locale
 */
import {
  type ColumnDefinitionNode,
  type DataTypeNode,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'

export function postgresDialect(driver: Driver): Dialect {
  return {
    createDriver: () => driver,
    createQueryCompiler: () => new PortableCompiler(),
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
  }
}

class PortableCompiler extends PostgresQueryCompiler {
  #isColumn = false

  protected override visitColumnDefinition(node: ColumnDefinitionNode): void {
    this.#isColumn = true
    super.visitColumnDefinition(node)
  }

  /** The first type within a column definition is the column's type; types elsewhere (CAST) stay as they are. */
  protected override visitDataType(node: DataTypeNode): void {
    const type = this.#isColumn ? columnTypes[node.dataType] : undefined
    this.#isColumn = false
    if (type === undefined) super.visitDataType(node)
    else this.append(type)
  }
}

const columnTypes: Partial<Record<string, string>> = { integer: 'bigint', text: 'text collate "C"' }
