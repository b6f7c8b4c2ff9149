/** Files of `pipes schema`: a schema that is read or written, and records that are read. */
import { writeFileSync } from 'node:fs'
import { isObject } from '../../../contract/is-object.ts'
import { jsonPointer, type RecordSchema, verifySchema } from '../../../contract/record-schema.ts'
import { errorCode } from '../../../platform/error-code.ts'
import { usageFailure } from '../../client/failure.ts'
import { fromTheStart, type InputPiece, type PieceReader, whyNoRecord } from '../ingest/input.ts'
import { openReader } from '../ingest/reader.ts'
import { openFile, openSource, openStdin, type Source } from '../ingest/source.ts'
import { readFileOrStdin } from '../input-file.ts'

/** `name`: the option with its value. Throws Failure (usage) for a file that is not a schema, with the path of a fault. */
export function readSchemaFile(file: string, name: string): RecordSchema {
  const text = readFileOrStdin(file, { name, hint: 'name a file that can be read, or - for stdin' })
  let schema: unknown
  try {
    schema = JSON.parse(text)
  } catch (error) {
    throw usageFailure(
      `${name} is not JSON: ${String(error)}`,
      'write a JSON Schema; docs/schemas.md has examples',
    )
  }
  const [first] = verifySchema(schema)
  if (first !== undefined || !isObject(schema))
    throw usageFailure(
      `${name}: ${jsonPointer(first?.path ?? [])} ${first?.message ?? ''}`,
      'docs/schemas.md lists the keywords',
    )
  return schema
}

export function schemaText(schema: object): string {
  return `${JSON.stringify(schema, null, 2)}\n`
}

/** Never replaces a file, because a person can have edited it. */
export function writeSchemaFile(file: string, schema: object): void {
  try {
    writeFileSync(file, schemaText(schema), { flag: 'wx' })
  } catch (error) {
    const why = errorCode(error) === 'EEXIST' ? 'it exists already' : String(error)
    throw usageFailure(`cannot write ${file}: ${why}`, 'name a file that does not exist')
  }
}

export interface FileRecord {
  /** The line where it starts; of Parquet, the row. */
  line: number
  text: string
  /** Stored bytes until here. Null: the size of the input is not known. */
  progress: { doneBytes: number; totalBytes: number } | null
}

/** The records of a file in any format of `pipectl ingest`; `-` is stdin. Throws Failure (usage) for an invalid record. */
export async function* recordsOfFile(file: string): AsyncGenerator<FileRecord> {
  const source = await openSource(file === '-' ? openStdin() : openFile(file))
  const csv = { types: new Map(), header: null, delimiter: null, nullText: null }
  const reader = await openReader(source, { format: null, csv }, fromTheStart)
  try {
    for (;;) {
      const pieces = await reader.next()
      if (pieces === null) return
      for (const piece of pieces) yield fileRecord(piece, source, reader)
    }
  } finally {
    await reader.close()
    source.close()
  }
}

function fileRecord(piece: InputPiece, { name, size }: Source, reader: PieceReader): FileRecord {
  const why = piece.kind === 'invalid' ? piece.reason : whyNoRecord(piece.bytes)
  const { line } = piece
  if (why !== null) throw usageFailure(`${name}, ${reader.unit} ${line}: ${why}`, 'records are JSON objects')
  const progress = size === null ? null : { doneBytes: reader.storedBytes(piece.end), totalBytes: size }
  return { line, text: piece.bytes.toString('utf8'), progress }
}
