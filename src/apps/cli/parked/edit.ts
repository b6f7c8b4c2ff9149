/**
 * `pipectl parked edit` and `pipectl pipes parked edit`: edit a parked record in an editor or from a file, and show the
 * changes before the replay.
 */
import { nothingToDoFailure, usageFailure } from '../../client/failure.ts'
import { checkRecords } from '../../client/json-check.ts'
import { changedParts, lineDiff } from '../../client/line-diff.ts'
import { compacted, editableText, recordTextsOf } from '../../client/parked.ts'
import { printableJson } from '../../client/printable.ts'
import { readFileOrStdin } from '../input-file.ts'
import { io } from '../io.ts'
import { canAsk, coloursOn, confirm, paint } from '../terminal.ts'
import { editRecords } from './editor.ts'

export interface RecordToEdit {
  parkedId: string
  /** The lane or the pipe, as the user named it. */
  name: string
  /** The first line of the notes above the text: which record it is, and its error. */
  title: string
  /** The original text of the response, in which numbers keep all digits. */
  response: string
  recordsCount: number
  /** `parked`, or `pipes parked`. */
  group: string
}

/** Each record's text. `file` null: uses the editor. Throws Failure if nothing changed or the user declines. */
export async function editedRecords(
  { parkedId, name, title, response, recordsCount, group }: RecordToEdit,
  { file, yes }: { file: string | null; yes: boolean | undefined },
): Promise<string[]> {
  if (file === null && (!canAsk() || io().stdout.isTTY !== true)) {
    throw usageFailure('an editor needs a terminal', 'give the records with -f FILE, or -f - for stdin')
  }
  const stored = editableText(recordTextsOf(response))
  const notes = [
    title,
    'After you close the editor, you are asked whether to replay it. If you change nothing, nothing happens.',
  ]
  const records =
    file === null ? await editRecords(stored, notes, recordsCount) : recordsFrom(file, recordsCount)
  if (records === null || editableText(records) === stored) {
    throw nothingToDoFailure(
      'nothing was changed, and nothing replayed',
      `\`pipectl ${group} replay ${name} ${parkedId}\` replays it as it is`,
    )
  }
  io().stderr.write(`${diffText(stored, editableText(records))}\n`)
  if (file === null || canAsk())
    await confirm(`Replay parked record ${parkedId} of ${name} with these changes?`, yes)
  return records.map(compacted)
}

/** `file`: `-` is stdin. One JSON object, or an array of at most as many as are parked. */
export function recordsFrom(file: string, most: number): string[] {
  const hint = 'name a file that holds the records as JSON, or - for stdin'
  const text = readFileOrStdin(file, { name: `-f ${file}`, hint })
  const { records, fault } = checkRecords(text.replace(/^\ufeff/, ''), most)
  if (records !== null) return records
  throw usageFailure(
    `${file === '-' ? 'stdin' : file}, line ${fault.line}, column ${fault.column}: ${fault.message}`,
    'give one JSON object, or an array of them',
  )
}

function diffText(before: string, after: string): string {
  const on = coloursOn(io().stderr)
  return changedParts(lineDiff(before, after))
    .map((line) => {
      if (line === null) return paint('dim', '  …', on)
      const text = printableJson(line.text)
      if (line.kind === 'same') return `  ${text}`
      return line.kind === 'added' ? paint('green', `+ ${text}`, on) : paint('red', `- ${text}`, on)
    })
    .join('\n')
}
