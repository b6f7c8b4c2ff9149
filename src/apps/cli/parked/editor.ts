/**
 * Opens records in the user's editor: in a private file (directory 0700, file 0600) that is always removed. If there
 * are errors when the editor closes, they are added as comments at the top, and the editor opens again, until the
 * text is valid or the user leaves it unchanged.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { commandFailure } from '../../client/failure.ts'
import { checkRecords, type JsonFault } from '../../client/json-check.ts'
import { printable } from '../../client/printable.ts'
import { io } from '../io.ts'

const commentMark = '//'

/**
 * The records as they are when the editor closes. Null: nothing was changed. `notes` are shown above the text. `most`
 * is the maximum number of records.
 */
export async function editRecords(
  text: string,
  notes: readonly string[],
  most: number,
  env: NodeJS.ProcessEnv = io().env,
): Promise<string[] | null> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-edit-'))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  const stop = stopHandlers(remove)
  try {
    const file = path.join(directory, 'records.json')
    let shown = text
    let complaints: string[] = []
    for (;;) {
      const opened = withComments(shown, [...complaints, ...notes])
      writeFileSync(file, opened, { mode: 0o600 })
      await runEditor(file, env)
      const closed = readFileSync(file, 'utf8')
      if (closed === opened) return null
      const json = withoutComments(closed)
      if (json.trim() === text.trim()) return null
      const { records, fault } = checkRecords(json, most)
      if (records !== null) return records
      shown = json
      complaints = complaintsOf(fault, notes.length)
    }
  } finally {
    stop()
    remove()
  }
}

/** Line numbers are those of the file when it is opened again: two lines for the error, then the notes. */
function complaintsOf(fault: JsonFault, notes: number): string[] {
  const line = fault.line + 2 + notes
  return [
    `Line ${line}, column ${fault.column}: ${fault.message}.`,
    'Correct it and close the editor again, or close it unchanged to cancel.',
  ]
}

function withComments(text: string, comments: readonly string[]): string {
  return `${comments.map((one) => `${commentMark} ${printable(one)}\n`).join('')}${text.trimEnd()}\n`
}

/** Comments are recognized only at the top, because a record can contain two slashes. */
function withoutComments(text: string): string {
  const lines = text.split('\n')
  const first = lines.findIndex((line) => !line.startsWith(commentMark))
  return first === -1 ? '' : lines.slice(first).join('\n')
}

/** A shell runs it, as in git, because EDITOR can contain arguments (`code --wait`). */
function runEditor(file: string, env: NodeJS.ProcessEnv): Promise<void> {
  const editor = env.VISUAL || env.EDITOR || 'vi'
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', `${editor} "$1"`, editor, file], { stdio: 'inherit', env })
    const failed = (why: string) =>
      reject(
        commandFailure(
          `the editor ${JSON.stringify(editor)} ${why}; nothing was changed`,
          'set VISUAL or EDITOR to an editor, or give the records with -f FILE',
        ),
      )
    child.once('error', (error) => failed(`could not be started (${error.message})`))
    child.once('close', (code, signal) => {
      if (code === 0) resolve()
      else failed(signal === null ? `ended with ${code}` : `was ended by ${signal}`)
    })
  })
}

/** Ctrl-C belongs to the editor. A signal that ends this program removes the file first. */
function stopHandlers(remove: () => void): () => void {
  const ignore = () => {}
  const end = (signal: NodeJS.Signals) => {
    remove()
    process.exit(signal === 'SIGHUP' ? 129 : 143)
  }
  process.on('SIGINT', ignore)
  process.once('SIGTERM', end)
  process.once('SIGHUP', end)
  return () => {
    process.off('SIGINT', ignore)
    process.off('SIGTERM', end)
    process.off('SIGHUP', end)
  }
}
