/** Compares the records of a pipe or a sample with a schema. */
import { MismatchReport } from '../../contract/schema-mismatches.ts'
import { openRecordCheck } from '../../ingest/schema/open-check.ts'
import type { RecordsChecked, SchemaCheckQuery } from './history.ts'
import type { NewestRecords, ReadRecord } from './newest-records.ts'

export async function checkRecords(
  newest: NewestRecords,
  { schema, ignoredKeys, ...source }: SchemaCheckQuery,
): Promise<RecordsChecked> {
  const check = await openRecordCheck(schema)
  const report = new MismatchReport<Omit<ReadRecord, 'text'>>()
  const read = await newest.each(source, ({ message, index, text }) => {
    const record = JSON.parse(text.toString('utf8'))
    for (const key of ignoredKeys) delete record[key]
    report.add({ message, index }, check(record, text.length))
  })
  return {
    ...read,
    mismatching: report.records,
    errors: report.errors,
    mismatches: report.first.map(({ place: { message, index }, errors }) => ({
      msgId: message?.msgId ?? null,
      receivedMs: message?.receivedMs ?? null,
      index,
      errors,
    })),
  }
}
