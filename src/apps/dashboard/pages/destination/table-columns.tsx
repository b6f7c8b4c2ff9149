/** The unmapped columns of the table according to a test, each with a suggested key. */
import { useState } from 'react'
import { writesClientIp } from '../../../../contract/client-ip.ts'
import type { ColumnMapping, TableColumn } from '../../../../contract/destination.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { usePipe } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { TextField } from '../../ui/fields.tsx'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './columns.module.css'
import type { ColumnDraft, DestinationDraft } from './draft.ts'

export interface KnownTable {
  /** Empty until a test has read the table that the form names. */
  columns: readonly TableColumn[]
  /** Keys that the pipe adds to its records. */
  addedKeys: readonly string[]
  learn: (columns: readonly TableColumn[] | undefined) => void
}

export function useTableColumns(pipeId: string, { config }: DestinationDraft): KnownTable {
  const [found, setFound] = useState<{ columns: readonly TableColumn[]; of: string } | null>(null)
  const { data } = usePipe(pipeId)
  const of = JSON.stringify(config)
  return {
    columns: found?.of === of ? found.columns : [],
    addedKeys: data === undefined ? [] : addedKeys(data.pipe),
    learn: (columns) => setFound(columns === undefined ? null : { columns, of }),
  }
}

export function typeIn({ columns }: KnownTable, name: string): string | undefined {
  return columns.find((column) => column.column_name === name.trim())?.data_type
}

export function TableColumns({
  table,
  mapped,
  onMap,
}: {
  table: KnownTable
  mapped: readonly ColumnDraft[]
  onMap: (columns: Partial<ColumnDraft>[]) => void
}) {
  const [typed, setTyped] = useState<ReadonlyMap<string, string>>(new Map())
  const names = new Set(mapped.map(({ name }) => name.trim()))
  const open = table.columns.filter(({ column_name }) => !names.has(column_name))
  if (open.length === 0) return null
  const keyOf = (column: TableColumn) =>
    typed.get(column.column_name) ?? suggestedKey(column, table.addedKeys)
  const chosen = open.filter((column) => keyOf(column).trim() !== '')
  const map = () =>
    onMap(
      chosen.map((column) => ({
        name: column.column_name,
        type: jsonType(column.data_type),
        source: keyOf(column).trim(),
      })),
    )
  return (
    <div className={styles.rows}>
      <Soft>
        Columns of the table without a mapping. As soon as any column is mapped, a column without a mapping
        gets its default, or NULL.
      </Soft>
      {open.map((column) => (
        <fieldset
          key={column.column_name}
          className={styles.offer}
          aria-label={`Table column ${column.column_name}`}
        >
          <div>
            <strong>
              <Outside text={column.column_name} />
            </strong>{' '}
            <Soft>
              <Outside text={column.data_type} />
              {column.has_default ? ', has a default' : column.is_nullable ? '' : ', needs a value'}
            </Soft>
          </div>
          <TextField
            label="Key"
            mono
            placeholder="not mapped"
            value={keyOf(column)}
            onValue={(key) => setTyped(new Map(typed).set(column.column_name, key))}
          />
        </fieldset>
      ))}
      <div className={formStyles.actions}>
        <Button changes disabled={chosen.length === 0} onClick={map}>
          {chosen.length === 1 ? 'Map 1 column' : `Map ${chosen.length} columns`}
        </Button>
      </div>
    </div>
  )
}

/**
 * Suggests a key that the pipe adds, by its name with or without `ingest_`, or else the name of the column. Suggests
 * none if the database has a default: a mapped nullable column gets NULL, and not its default, if a record lacks the
 * key.
 */
function suggestedKey({ column_name: name, has_default }: TableColumn, added: readonly string[]): string {
  const known = added.find((key) => key === name) ?? added.find((key) => key === `ingest_${name}`)
  return known ?? (has_default ? '' : name)
}

function addedKeys(pipe: Pipe): string[] {
  const keys = [
    pipe.pipe_add_ingest_ts ? pipe.pipe_ingest_ts_field : null,
    writesClientIp(pipe) ? pipe.pipe_ingest_ip_field : null,
    pipe.pipe_ingest_geo_country_field,
    pipe.pipe_ingest_geo_region_field,
    pipe.pipe_ingest_geo_city_field,
    pipe.pipe_ingest_geo_postal_field,
    pipe.pipe_ingest_geo_latitude_field,
    pipe.pipe_ingest_geo_longitude_field,
    pipe.pipe_ingest_geo_accuracy_radius_field,
  ]
  return keys.filter((key) => key !== null)
}

/** Maps types of PostgreSQL and MySQL. Any other type becomes text. */
function jsonType(dataType: string): ColumnMapping['column_type'] {
  if (dataType.endsWith('[]')) return 'array'
  if (/^(boolean|tinyint\(1\))/.test(dataType)) return 'boolean'
  if (/^jsonb?$/.test(dataType)) return 'object'
  const isNumber =
    /^((tiny|small|medium|big)?int(eger)?|numeric|decimal|real|double|float|money|oid|year)\b/.test(dataType)
  return isNumber ? 'number' : 'string'
}
