/** The columns that a record fills: all of them, or without mappings those for which it has keys. */
import type { ColumnRule } from '../../contract/column-rules.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'

/** The slot of a rule's key in a scanned record, which is added to `slots`; -1 if the value is not from the record. */
export function slotOf({ source }: ColumnRule, slots: Map<string, number>): number {
  if (source.kind !== 'key') return -1
  const slot = slots.get(source.key) ?? slots.size
  slots.set(source.key, slot)
  return slot
}

interface Shaped<Column> {
  columns: readonly Column[]
  /** There are no mappings. */
  isByName: boolean
}

/** `shapeOf` is called once for each combination of columns that is in use. */
export function rowShapes<Column extends { slot: number }, Shape>(
  { columns, isByName }: Shaped<Column>,
  shapeOf: (columns: readonly Column[]) => Shape,
): (scanned: readonly (string | undefined)[]) => Shape {
  const whole = shapeOf(columns)
  if (!isByName) return () => whole
  const known = new Map<string, Shape>()
  return (scanned) => {
    let mask = ''
    for (const json of scanned) mask += json === undefined ? '0' : '1'
    const shape = known.get(mask) ?? shapeOf(columns.filter(({ slot }) => scanned[slot] !== undefined))
    // The least recently used shape is dropped. Records with random keys would otherwise retain 2 KB of statement each.
    known.delete(mask)
    known.set(mask, shape)
    if (known.size > resourceLimits.rowShapes) known.delete(known.keys().next().value ?? mask)
    return shape
  }
}
