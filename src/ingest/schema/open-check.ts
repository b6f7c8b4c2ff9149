/** Checks single records outside of ingest: stored ones, or those of a file. */
import type { RecordSchema } from '../../contract/record-schema.ts'
import { loadPatterns, mismatchesOf, type SchemaRules, stepsInThread } from './record-check.ts'
import type { RecordError } from './run.ts'

/** Returns the errors of a record, at most ten. Empty: it matches. `bytes`: of its text. */
export type RecordCheck = (record: unknown, bytes: number) => readonly RecordError[]

/** `schema`: verified. */
export async function openRecordCheck(schema: RecordSchema): Promise<RecordCheck> {
  const text = JSON.stringify(schema)
  const rules = {
    schema: text,
    hasPatterns: text.includes('"pattern":'),
    onMismatch: 'reject',
    tagField: '',
    isInTurn: false,
  } as const satisfies Omit<SchemaRules, 'steps'>
  await loadPatterns({ ...rules, steps: 0 })
  return (record, bytes) => {
    const found = mismatchesOf([record], { ...rules, steps: stepsInThread(bytes) })
    return found === null || found === 'elsewhere'
      ? []
      : found.errors.map(({ path, message }) => ({ path, message }))
  }
}
