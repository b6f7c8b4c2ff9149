/** Turns the fields that clients send for a destination into the stored form. Pure. */
import type { ColumnMapping, DestinationType } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'

type Config = Record<string, unknown>

/** A new config: null means not given, and so does an empty secret that may be left out. */
export function givenConfig(type: DestinationType, config: Config): Config {
  return Object.fromEntries(
    Object.entries(config).filter(([key, value]) => value !== null && !isUnset(type, key, value)),
  )
}

/** A mapping with every key present, as it is stored. An empty `source_field` is none. */
export function storedColumn(column: {
  column_name: string
  column_type: ColumnMapping['column_type']
  source_field?: string | null
  semantic_role?: ColumnMapping['semantic_role']
  nullable?: boolean
}): ColumnMapping {
  return {
    column_name: column.column_name,
    column_type: column.column_type,
    source_field: column.source_field || null,
    semantic_role: column.semantic_role ?? null,
    nullable: column.nullable ?? true,
  }
}

function isUnset(type: DestinationType, key: string, value: unknown): boolean {
  return value === '' && wordsOf(type).emptyIsUnset.includes(key)
}
