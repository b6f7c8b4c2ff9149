/** `--sample-file`: records for the daemon to use instead of the newest ones of a pipe. */
import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { usageFailure } from '../../client/failure.ts'
import { fromTheStart, whyNoRecord } from '../ingest/input.ts'
import { RecordSplitter } from '../ingest/record-splitter.ts'

const maxRecords = 1_000
/** The sample is JSON text within a body of 1 MiB, in which quotes and backslashes take two characters. */
const maxCharacters = 450_000

/** The first records of a file, one per line. Throws Failure (usage). */
export function sampleText(name: string): string {
  if (name !== '-' && !existsSync(name))
    throw usageFailure(`--sample-file ${name}: there is no such file`, 'name a file, or - for stdin')
  const splitter = new RecordSplitter(fromTheStart, name === '-' ? 'stdin' : name)
  const lines: string[] = []
  let characters = 0
  const take = (pieces: ReturnType<RecordSplitter['push']>) => {
    for (const piece of pieces) {
      const why = piece.kind === 'invalid' ? piece.reason : whyNoRecord(piece.bytes)
      if (why !== null)
        throw usageFailure(`--sample-file ${name}, line ${piece.line}: ${why}`, 'records are JSON objects')
      const line = piece.bytes.toString('utf8').replace(/[\r\n]+/g, ' ')
      characters += line.length + 1
      if (lines.length > 0 && characters > maxCharacters) return false
      if (lines.push(line) === maxRecords) return false
    }
    return true
  }
  const file = name === '-' ? 0 : openSync(name, 'r')
  try {
    const chunk = Buffer.alloc(64 * 1024)
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk))
      if (!take(splitter.push(Buffer.from(chunk.subarray(0, read))))) return lines.join('\n')
    take(splitter.finish())
    return lines.join('\n')
  } finally {
    if (name !== '-') closeSync(file)
  }
}
