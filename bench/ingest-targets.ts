/**
 * The targets of the ingest bench's load: this daemon with its settings, another build's, and servers that keep
 * nothing.
 */
import { fork } from 'node:child_process'
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'

export interface Target {
  name: string
  pid: number
  /** The processes of the servers that it keeps its data in. */
  serverPids?: readonly number[]
  url: string
  headers: Record<string, string>
  /** Resolves when what the load has left to be done is done. */
  settled?(): Promise<unknown>
  close(): Promise<void>
}

/** A server that parses the body and keeps nothing, on one thread: floor-server.ts. */
export async function floorTarget(kind: 'uws' | 'node'): Promise<Target> {
  const child = fork(new URL('floor-server.ts', import.meta.url), {
    execArgv: ['--import=tsx'],
    env: { ...process.env, BENCH_FLOOR: kind },
  })
  const port = await new Promise<number>((resolve) => child.once('message', (port) => resolve(Number(port))))
  return {
    name: kind === 'uws' ? 'uWebSockets alone' : 'node:http alone',
    pid: child.pid ?? 0,
    url: `http://127.0.0.1:${port}/`,
    headers: { 'Content-Type': 'application/json' },
    close: async () => void child.kill(),
  }
}

export interface DaemonSettings {
  engine?: 'uws' | 'node'
  workers?: number
  /** Another build's bin/pipectl.js. */
  program?: string
  /** Settings of the pipe. */
  pipe?: Record<string, unknown>
  env?: Record<string, string>
}

/** A daemon with an empty pipe. */
export async function daemonTarget(
  name: string,
  { engine = 'uws', workers = 1, program, pipe, env: more }: DaemonSettings = {},
): Promise<Target & { daemon: TestDaemon; pipeId: string }> {
  const env = { PIPECTL_HTTP_ENGINE: engine, PIPECTL_INGEST_WORKERS: String(workers), ...more }
  const daemon = await startDaemon({ env, ...(program === undefined ? {} : { program }) })
  const pipeId = await daemon.createPipe({ pipe_name: 'bench', ...pipe })
  return {
    name,
    daemon,
    pipeId,
    pid: daemon.pid,
    url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
    headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
    close: () => daemon.close(),
  }
}
