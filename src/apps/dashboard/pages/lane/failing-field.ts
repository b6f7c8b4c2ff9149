/** Finds the keys of a record that a destination's error refers to. The error can name columns or keys. Pure. */
import type { ColumnMapping } from '../../../../contract/destination.ts'
import { elementTexts, indented, valueText } from '../../../client/json-text.ts'

export interface RecordLine {
  text: string
  isNamed: boolean
}

/** The known facts about the failure. */
export interface NamedFailure {
  /** The text of the error. */
  error: string | null
  /** The rejected record and its column, if the destination names them. */
  failing: { record_index: number; column: string | null } | null
  /** The index of the first shown record. */
  from: number
}

/** The records in the response for a blocking message, each as lines of its original text. */
export function recordsOf(
  response: string,
  { error, failing, from }: NamedFailure,
  columns: readonly ColumnMapping[],
): RecordLine[][] {
  return elementTexts(valueText(response, 'records') ?? '[]').map((record, index) => {
    // If the failing record is known, the other records are not marked.
    const isAnother = failing !== null && failing.record_index !== from + index
    return linesOf(record, isAnother ? null : (failing?.column ?? error), columns)
  })
}

function linesOf(record: string, error: string | null, columns: readonly ColumnMapping[]): RecordLine[] {
  return indented(record)
    .split('\n')
    .map((text) => {
      const key = topLevelKey(text)
      return { text, isNamed: key !== null && error !== null && names(error, key, columns) }
    })
}

/** Top-level keys are indented by two spaces, nested keys by more. */
function topLevelKey(line: string): string | null {
  const found = /^ {2}("(?:[^"\\]|\\.)*"): /.exec(line)
  return found === null ? null : JSON.parse(found[1] ?? '""')
}

function names(error: string, key: string, columns: readonly ColumnMapping[]): boolean {
  const mapped = columns
    .filter((column) => (column.source_field ?? column.column_name) === key)
    .map((column) => column.column_name)
  return [key, ...mapped].some((word) => hasWord(error, word))
}

/** Matches whole words: `id` does not match `invalid`. */
function hasWord(text: string, word: string): boolean {
  if (word === '') return false
  let at = text.indexOf(word)
  while (at !== -1) {
    const [before, after] = [text.charAt(at - 1), text.charAt(at + word.length)]
    if (!/[\w-]/.test(before) && !/[\w-]/.test(after)) return true
    at = text.indexOf(word, at + 1)
  }
  return false
}
