/** Checks records against a schema in the process of a command, with the check that ingest uses. */
import { type RecordSchema, type SchemaProblem, verifySchema } from '../contract/record-schema.ts'
import { openRecordCheck, type RecordCheck } from '../ingest/schema/open-check.ts'

/** The patterns are verified too, with the engine that runs them. */
export async function schemaProblems(schema: object): Promise<readonly SchemaProblem[]> {
  const { patternVerifier } = await import('../ingest/schema/linear-pattern.ts')
  return verifySchema(schema, patternVerifier())
}

/** `schema`: without problems. */
export async function openSchemaCheck(schema: RecordSchema): Promise<RecordCheck> {
  return await openRecordCheck(schema)
}
