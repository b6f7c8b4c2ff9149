/** The draft of the form of a pipe's schema, and what is stored of it. Pure. */
import type { Pipe, PipePatch } from '../../../../contract/pipe.ts'
import { jsonPointer, verifySchema } from '../../../../contract/record-schema.ts'
import type { MismatchAction } from '../../../../contract/schema-words.ts'
import { checkRecords, type JsonFault } from '../../../client/json-check.ts'

export interface SchemaDraft {
  /** JSON. Empty: no schema. */
  text: string
  onMismatch: MismatchAction
  tagField: string
}

export function schemaPart(pipe: Pipe): object {
  const { pipe_schema, pipe_schema_on_mismatch, pipe_schema_tag_field } = pipe
  return { pipe_schema, pipe_schema_on_mismatch, pipe_schema_tag_field }
}

export function draftOf(pipe: Pipe): SchemaDraft {
  return {
    text: textOf(pipe.pipe_schema),
    onMismatch: pipe.pipe_schema_on_mismatch,
    tagField: pipe.pipe_schema_tag_field,
  }
}

export function textOf(schema: object | null): string {
  return schema === null ? '' : JSON.stringify(schema, null, 2)
}

export interface CheckedSchema {
  /** Null: the text is empty, or it is not a schema. */
  schema: Record<string, unknown> | null
  /** An error in the JSON. */
  fault: JsonFault | null
  /** Errors in the schema, each with its path. */
  problems: readonly string[]
}

export function checkedSchema(text: string): CheckedSchema {
  if (text.trim() === '') return { schema: null, fault: null, problems: [] }
  const { fault } = checkRecords(text, 1)
  if (fault !== null) return { schema: null, fault, problems: [] }
  const schema: unknown = JSON.parse(text)
  const problems = verifySchema(schema).map(({ path, message }) => `${jsonPointer(path)} ${message}`.trim())
  return { schema: problems.length > 0 ? null : (schema as Record<string, unknown>), fault: null, problems }
}

/** The fields that differ from the stored ones. Null: the text is not a schema. */
export function changeOf(pipe: Pipe, draft: SchemaDraft, checked: CheckedSchema): PipePatch | null {
  if (checked.fault !== null || checked.problems.length > 0) return null
  const stored = draftOf(pipe)
  const isSame = textOf(checked.schema) === stored.text
  return {
    ...(isSame ? {} : { pipe_schema: checked.schema }),
    ...(draft.onMismatch === stored.onMismatch ? {} : { pipe_schema_on_mismatch: draft.onMismatch }),
    ...(draft.tagField === stored.tagField ? {} : { pipe_schema_tag_field: draft.tagField }),
  }
}
