/** Which keys of a record an error of a destination speaks of: the error names columns or keys in words of its own. Pure. */
import type { ColumnMapping } from '../../../../contract/destination.ts'
import { elementTexts, indented, valueText } from '../../../client/json-text.ts'

export interface RecordLine {
  text: string
  isNamed: boolean
}

/** The known facts about the failure. */
export interface NamedFailure {
  /** The error's words. */
  error: string | null
  /** The refused record and its column, where the destination names them. */
  failing: { record_index: number; column: string | null } | null
  /** The place of the first record shown. */
  from: number
}

/** The records of a blocking message's response, each as lines of its own text. */
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

/** Top-level keys are indented by two spaces, what is nested by more. */
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

/** As a word by itself: `id` is not in `invalid`. */
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
