/** A metadata database of a test's own: opened, with workspaces and pipes as the test asks; removed at the end. */
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import type { ColumnMapping } from '../../../src/contract/destination.ts'
import { type Pipe, type PipeLimits, pipeDefaults } from '../../../src/contract/pipe.ts'
import type { NewDestination } from '../../../src/metadata/destinations.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { LaneOwner } from '../../../src/metadata/lane-ownership.ts'
import { noCounts } from '../../../src/metadata/lane-state.ts'
import type { NewPipe } from '../../../src/metadata/pipes.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { type MetadataOptions, openMetadata } from '../../../src/stores/open-metadata.ts'
import { type TestDatabase, testDatabase } from './database.ts'

type Scope = Pick<Test, 'teardown'>

export interface TestFile extends TestDatabase, Pick<MetadataOptions, 'now' | 'quotas' | 'isShared'> {
  sealingKey: Buffer
}

export function testFile(t: Scope): TestFile {
  return { ...testDatabase(t), sealingKey: randomBytes(32) }
}

/** Without closing it at the end of the test. */
export async function openFile({
  spec,
  ready,
  sealingKey,
  now,
  quotas,
  isShared,
}: Omit<TestFile, 'dir' | 'file'>): Promise<Metadata> {
  await ready()
  return await openMetadata(spec, sealingKey, { now, quotas, isShared })
}

export async function open(t: Scope, options: TestFile = testFile(t)): Promise<Metadata> {
  const metadata = await openFile(options)
  t.teardown(() => metadata.close())
  return metadata
}

export async function newWorkspace(metadata: Metadata, name: string): Promise<string> {
  return (await metadata.workspaces.create(name, mintApiKey('first').key)).workspaceId
}

export function newPipe(
  metadata: Metadata,
  workspaceId: string,
  name: string,
  more: Partial<NewPipe> = {},
): Promise<Pipe> {
  return metadata.pipes.create(workspaceId, {
    pipe_name: name,
    pipe_status: 'active',
    ...pipeDefaults,
    ...more,
  })
}

export function databaseDestination(more: Partial<NewDestination> = {}): NewDestination {
  return {
    destination_type: 'destination_database',
    destination_max_retry_seconds: 86_400,
    destination_config: {
      host: 'db.example',
      port: 5432,
      database: 'app',
      username: 'writer',
      password: 'correct horse',
      table: 'events',
    },
    columns: [],
    startAfterSeq: 0,
    ...more,
  }
}

/** As the only owner that the lane ever had, unless another epoch is given. */
export function ownerOf(destinationId: string, epoch = 1): LaneOwner {
  return { destinationId, epoch }
}

export function pullDestination(startAfterSeq = 0): NewDestination {
  return {
    destination_type: 'destination_pull',
    destination_max_retry_seconds: 60,
    destination_config: {},
    columns: [],
    startAfterSeq,
  }
}

export function column(name: string, more: Partial<ColumnMapping> = {}): ColumnMapping {
  return {
    column_name: name,
    column_type: 'string',
    source_field: null,
    semantic_role: null,
    nullable: true,
    ...more,
  }
}

/** Everything on disk: the file, its write-ahead log and whatever lies beside them. */
export function rawBytes(dir: string): Buffer {
  return Buffer.concat(readdirSync(dir).map((name) => readFileSync(path.join(dir, name))))
}

export const limits: PipeLimits = {
  pl_ingest_max_records_per_request: 1,
  pl_ingest_max_records_per_second: 2,
  pl_ingest_max_records_per_day: Number.MAX_SAFE_INTEGER,
  pl_ingest_max_bytes_per_day: 4,
  pl_delivery_max_records_per_flush: 5,
  pl_delivery_max_bytes_per_flush: 6,
  pl_delivery_max_seconds_per_flush: 7,
}

/** A file with one lane, its saved row, and the counts of a lane that has done nothing. */
export async function newLane(t: Test, startAfterSeq = 0) {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const made = await metadata.destinations.create({ workspaceId, pipeId }, pullDestination(startAfterSeq))
  const destinationId = made.destination_id
  const row = (await metadata.laneStore.load(destinationId))!
  const counts = noCounts({ destinationId, pipeId })
  return { ...options, metadata, workspaceId, pipeId, destinationId, row, counts }
}
