/**
 * `--import` of a daemon whose calls are traced (call-trace.ts). Every thread of it sets the breakpoints of the file that
 * TRACED_CALLS names on itself. Their condition writes the function's number to the file TRACE_OF_CALLS and is never
 * true, so no thread pauses. Each number is one append of a few bytes: the file has the order of all threads.
 */
import { openSync, readFileSync, writeSync } from 'node:fs'
import { Session } from 'node:inspector'

export interface TracedCall {
  /** The URL of the module, as the debugger knows it. */
  url: string
  /** The position of the function's first statement, both from 0. */
  lineNumber: number
  columnNumber: number
}

const { TRACED_CALLS: calls = '', TRACE_OF_CALLS: trace = '' } = process.env
const file = openSync(trace, 'a')
Object.assign(globalThis, { traceCall: (index: number) => void writeSync(file, `${index}\n`) })
const session = new Session()
session.connect()
session.post('Debugger.enable')
for (const [index, call] of (JSON.parse(readFileSync(calls, 'utf8')) as TracedCall[]).entries()) {
  session.post('Debugger.setBreakpointByUrl', { ...call, condition: `traceCall(${index})` })
}
