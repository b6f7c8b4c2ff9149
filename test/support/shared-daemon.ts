/**
 * One daemon for many test files: each gets a workspace of its own in it. test/run-files.ts lends it to one file after the
 * other, so no other test uses the daemon meanwhile. It is for files that neither restart the daemon, nor give
 * it settings, nor count what all workspaces together do.
 *
 * A file that is run alone starts its own daemon.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { request } from 'undici'
import { createWorkspace, type LogLine, startDaemon, TestDaemon } from './daemon.ts'

interface Address {
  url: string
  dataUrl: string
  metricsUrl: string
  dataDir: string
  logFile: string
}

export interface HostedDaemon {
  env: Record<string, string>
  close(): Promise<void>
}

const variable = 'TEST_DAEMON'

/** Starts a daemon. Returns the environment for its test files, and a function that stops it. */
export async function hostSharedDaemon(): Promise<HostedDaemon> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-shared-'))
  const logFile = path.join(directory, 'log')
  writeFileSync(logFile, '')
  const daemon = await startDaemon({ logFile })
  const { url, dataUrl, metricsUrl, dataDir } = daemon
  const address: Address = { url, dataUrl, metricsUrl, dataDir, logFile }
  return {
    env: { [variable]: JSON.stringify(address) },
    async close() {
      await daemon.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Returns the daemon that was lent with a new workspace, or a daemon of this file. Call `close()` in the test's teardown. */
export async function sharedDaemon(): Promise<TestDaemon> {
  const text = process.env[variable]
  if (text === undefined) return await startDaemon()
  const daemon = new SharedDaemon(JSON.parse(text))
  const created = await createWorkspace(daemon.dataDir, `test-${process.pid}-${Date.now()}`)
  daemon.apiKey = created.api_key
  daemon.workspaceId = created.workspace_id
  return daemon
}

class SharedDaemon extends TestDaemon {
  readonly #logFile: string
  /** Bytes of the log from before this file. */
  readonly #start: number

  constructor({ url, dataUrl, metricsUrl, dataDir, logFile }: Address) {
    super({ dataDir })
    Object.assign(this, { url, dataUrl, metricsUrl, isReady: true })
    this.#logFile = logFile
    this.#start = readFileSync(logFile).length
    Object.defineProperty(this, 'log', { get: () => this.#lines() })
  }

  #lines(): LogLine[] {
    const text = readFileSync(this.#logFile).subarray(this.#start).toString()
    const complete = text.slice(0, text.lastIndexOf('\n') + 1)
    return complete
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
  }

  override start(): Promise<this> {
    throw new Error('this file shares its daemon: use startDaemon() to restart it')
  }

  override stop(): Promise<number | string> {
    throw new Error('this file shares its daemon: use startDaemon() to stop it')
  }

  override kill(): Promise<void> {
    throw new Error('this file shares its daemon: use startDaemon() to kill it')
  }

  /** Deletes the pipes of this file, whose destinations are gone. */
  override async close(): Promise<void> {
    const headers = { authorization: `Bearer ${this.apiKey}` }
    const list = await request(`${this.url}/v1/pipes`, { headers })
    if (list.statusCode !== 200) throw new Error(`GET /v1/pipes: ${await list.body.text()}`)
    const { pipes } = (await list.body.json()) as { pipes: { pipe_id: string }[] }
    for (const { pipe_id } of pipes) {
      const { statusCode, body } = await request(`${this.url}/v1/pipes/${pipe_id}`, {
        method: 'DELETE',
        headers,
      })
      const text = await body.text()
      if (statusCode !== 204 && statusCode !== 404)
        throw new Error(`DELETE ${pipe_id}: ${statusCode} ${text}`)
    }
  }
}
