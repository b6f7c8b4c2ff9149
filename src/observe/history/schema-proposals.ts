/** Proposes a schema from the records of a pipe or a sample. */
import { SchemaInference } from '../../contract/schema-inference/infer-schema.ts'
import type { History, SchemaInferenceQuery } from './history.ts'
import type { NewestRecords } from './newest-records.ts'

export async function proposeSchema(
  newest: NewestRecords,
  { ignoredKeys, options, ...source }: SchemaInferenceQuery,
): ReturnType<History['inferSchema']> {
  const inference = new SchemaInference(ignoredKeys)
  const read = await newest.each(source, ({ text }) => inference.add(JSON.parse(text.toString('utf8'))))
  return { ...read, ...inference.schema(options) }
}
