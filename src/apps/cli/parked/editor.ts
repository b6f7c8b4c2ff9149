/**
 * Records in the user's editor: a private file (directory 0700, file 0600), removed in any case. Faults that remain
 * when the editor is closed are written at the top as comments, and it opens again, until the text is valid or was
 * left unchanged.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { exitCodes, Failure } from '../../client/failure.ts'
import { checkRecords, type JsonFault } from '../../client/json-check.ts'
import { printable } from '../../client/printable.ts'
import { io } from '../io.ts'

const commentMark = '//'

/**
 * The records as they are when the editor is closed; null: nothing was changed. `notes`: said above the text. `most`: how many
 * records there may be.
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

/** Line numbers are those of the file as it is opened next: two lines of complaint, then the notes. */
function complaintsOf(fault: JsonFault, notes: number): string[] {
  const line = fault.line + 2 + notes
  return [
    `Line ${line}, column ${fault.column}: ${fault.message}.`,
    'Correct it and close the editor again, or close it as it is to give up.',
  ]
}

function withComments(text: string, comments: readonly string[]): string {
  return `${comments.map((one) => `${commentMark} ${printable(one)}\n`).join('')}${text.trimEnd()}\n`
}

/** Comments at the top only: further down two slashes may stand in a record. */
function withoutComments(text: string): string {
  const lines = text.split('\n')
  const first = lines.findIndex((line) => !line.startsWith(commentMark))
  return first === -1 ? '' : lines.slice(first).join('\n')
}

/** A shell runs it, as git does: EDITOR may have arguments (`code --wait`). */
function runEditor(file: string, env: NodeJS.ProcessEnv): Promise<void> {
  const editor = env.VISUAL || env.EDITOR || 'vi'
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', `${editor} "$1"`, editor, file], { stdio: 'inherit', env })
    const failed = (why: string) =>
      reject(
        new Failure(
          exitCodes.failed,
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

/** Ctrl-C is the editor's own affair; a signal that ends this program removes the file first. */
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
