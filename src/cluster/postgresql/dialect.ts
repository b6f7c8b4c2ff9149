/**
 * Kysely's dialect over PostgreSQL. What its columns need otherwise than SQLite's is decided here, where a table is made, so
 * that a migration is one text for both:
 *
 *   integer   bigint: SQLite's are of 64 bits
 *   text      with the order of bytes, whatever the database's locale: as SQLite sorts and compares
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

  /** The first type within a definition is the column's own; elsewhere (CAST) a type stays as it is. */
  protected override visitDataType(node: DataTypeNode): void {
    const type = this.#isColumn ? columnTypes[node.dataType] : undefined
    this.#isColumn = false
    if (type === undefined) super.visitDataType(node)
    else this.append(type)
  }
}

const columnTypes: Partial<Record<string, string>> = { integer: 'bigint', text: 'text collate "C"' }
