/** A SQLite file where a destination of a workspace has it, and what another program does with it. */
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { DriverSettings } from '../../src/destinations/driver.ts'
import { tableFilePath, tablesDirOf } from '../../src/destinations/sqlite/files.ts'
import { openSettings } from './batches.ts'
import type { TestDaemon } from './daemon.ts'

export const workspaceId = '5b0f3c1e-7d2a-4c44-8d88-00000000000a'

export interface TableWorld {
  settings: DriverSettings
  path: string
  /** The name in the config. */
  file: string
  /** Runs on a connection of its own, which is closed again. Numbers beyond 2^53 are BigInts. */
  query(sql: string): Record<string, unknown>[]
  /** Begins a transaction that keeps everybody else from writing; the result ends it. */
  lock(): () => void
  /** Connections to the file, without that of `lock`. */
  connections(): number
  stop(): void
}

export function startTableFile(file = 'shop'): TableWorld {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-tables-'))
  const world = worldOf(dir, workspaceId, file)
  return { ...world, stop: () => rmSync(dir, { recursive: true }) }
}

/** The file of a destination of a daemon's workspace, which is created by this. */
export function openTableFile(daemon: Pick<TestDaemon, 'dataDir' | 'workspaceId'>, file: string): TableWorld {
  return worldOf(tablesDirOf(daemon.dataDir), daemon.workspaceId, file)
}

function worldOf(dir: string, owner: string, file: string): TableWorld {
  const where = tableFilePath(dir, owner, file)
  mkdirSync(path.dirname(where), { recursive: true })
  let held = 0
  const open = () => {
    const database = new Database(where)
    database.defaultSafeIntegers()
    return database
  }
  const first = open()
  first.pragma('journal_mode = WAL')
  first.close()
  return {
    settings: { ...openSettings, timeline: 'directory/1/1', tables: { dir, minFreeBytes: 0 } },
    path: where,
    file,
    query(sql) {
      const database = open()
      try {
        const statements = sql.split(';\n').filter((one) => one.trim() !== '')
        return statements.flatMap((one) => {
          const statement = database.prepare(one)
          if (statement.reader) return (statement.all() as Record<string, unknown>[]).map(plainNumbers)
          statement.run()
          return []
        })
      } finally {
        database.close()
      }
    },
    lock() {
      const database = open()
      database.exec('BEGIN IMMEDIATE')
      held += 1
      return () => {
        held -= 1
        database.close()
      }
    },
    connections() {
      const files = readdirSync('/proc/self/fd').map((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`)
        } catch {
          return ''
        }
      })
      return files.filter((one) => one === where).length - held
    },
    stop: () => {},
  }
}

function plainNumbers(row: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(row).map(([key, value]) => [
    key,
    typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value,
  ])
  return Object.fromEntries(entries)
}
