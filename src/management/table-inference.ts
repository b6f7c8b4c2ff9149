/** A table proposed from records, and made where asked to: POST …/destinations/infer. */
import { randomUUID } from 'node:crypto'
import { validationError } from '../contract/errors.ts'
import { isObject } from '../contract/is-object.ts'
import { geoFieldKeys, type Pipe } from '../contract/pipe.ts'
import { InferenceOptions, type TableProposal } from '../contract/table-proposal.ts'
import { requireObject, validate } from '../contract/validate.ts'
import type { TableInferenceRequest } from '../delivery/delivery.ts'
import type { DatabaseSpec, InferRequest } from '../destinations/driver.ts'
import type { ManagementDeps } from './deps.ts'
import { changed, newDestination, specOf } from './destinations.ts'
import { requireDestination, requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'delivery' | 'checkTarget'>

export function tableInferenceUseCases({ metadata, delivery, checkTarget }: Deps) {
  /** The database of the body: new, or a stored destination as a PATCH would make it. */
  const specFrom = async (workspaceId: string, pipe: Pipe, body: Record<string, unknown>) => {
    const { destination_id, destination_type, destination_config } = body
    const given = {
      ...(Object.hasOwn(body, 'destination_type') ? { destination_type } : {}),
      ...(Object.hasOwn(body, 'destination_config') ? { destination_config } : {}),
    }
    const destination =
      destination_id === undefined
        ? { ...newDestination(given, checkTarget), destination_id: randomUUID(), pinnedKey: null }
        : changed(
            await requireDestination(metadata, workspaceId, pipe.pipe_id, String(destination_id)),
            given,
            checkTarget,
          )
    const spec = specOf(pipe, destination, destination.pinnedKey)
    if (spec.type === 'destination_database') return spec
    const field = destination_id === undefined ? 'destination_type' : 'destination_id'
    throw validationError({ [field]: 'Only a destination_database has a table.' })
  }
  return {
    async inferTable(workspaceId: string, pipeId: string, body: unknown): Promise<TableProposal> {
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const { destination_id, destination_type, destination_config, ...rest } = requireObject(body)
      const options = validate(InferenceOptions, rest)
      const spec = await specFrom(workspaceId, pipe, requireObject(body))
      const request: TableInferenceRequest = {
        sample: options.sample === undefined ? null : sampleRecords(options.sample),
        enriched: enrichedKeys(pipe),
        keys: options.keys ?? null,
        createTable: options.create_table ?? false,
        addColumns: options.add_columns ?? false,
        dedupe: dedupeOf(options),
      }
      const work = async () => (await delivery.infer(spec, request)) ?? unanswered(spec, request)
      if (!request.createTable && !request.addColumns) return await work()
      return await audited(metadata, workspaceId, pipe, spec, work)
    },
  }
}

/** The entry is there before anything is run; what was run is added to it. A crash in between leaves `requested`. */
async function audited(
  { audit }: Deps['metadata'],
  workspaceId: string,
  { pipe_id }: Pipe,
  { config: { host, database, table } }: DatabaseSpec,
  work: () => Promise<TableProposal>,
): Promise<TableProposal> {
  const where = { host, database, table }
  const auditId = await audit.record({
    ...{ workspaceId, operation: 'inferTable', resourceId: pipe_id, pipeId: pipe_id },
    before: null,
    after: { status: 'requested', ...where },
  })
  const complete = (after: object) => audit.complete(workspaceId, auditId, { ...after, ...where })
  try {
    const proposal = await work()
    const { executed, failure } = proposal
    const ddl = executed.map((statement) => statement.slice(0, auditedCharacters))
    if (failure !== null) await complete({ status: 'failed', failure })
    else await complete({ status: ddl.length === 0 ? 'nothing_to_do' : 'executed', ddl })
    return proposal
  } catch (error) {
    await complete({ status: 'failed' })
    throw error
  }
}

/** Four bytes each at most, and an entry has 16 KiB. */
const auditedCharacters = 3_500

/** As records are stored: each on a line of its own, without empty lines. Throws `validation_error`. */
function sampleRecords(sample: string): string {
  const lines = sample.split('\n').map((line) => line.trim())
  const records = lines.filter((line) => line !== '')
  if (records.length === 0) throw validationError({ sample: 'holds no records' })
  lines.forEach((line, index) => {
    if (line !== '' && !isRecord(line))
      throw validationError({ sample: `line ${index + 1} is not a JSON object: NDJSON has one on each line` })
  })
  return records.join('\n')
}

function isRecord(line: string): boolean {
  try {
    return isObject(JSON.parse(line))
  } catch {
    return false
  }
}

function dedupeOf({ dedupe_key, dedupe_id = 'generated' }: InferenceOptions): InferRequest['dedupe'] {
  return dedupe_key === undefined ? { kind: dedupe_id } : { kind: 'key', key: dedupe_key }
}

function enrichedKeys(pipe: Pipe): InferRequest['enriched'] {
  const keys: { key: string; kind: InferRequest['enriched'][number]['kind'] }[] = []
  if (pipe.pipe_add_ingest_ts) keys.push({ key: pipe.pipe_ingest_ts_field, kind: 'time' })
  if (pipe.pipe_add_ingest_ip) keys.push({ key: pipe.pipe_ingest_ip_field, kind: 'string' })
  for (const field of geoFieldKeys) {
    const key = pipe[field]?.trim()
    if (!key) continue
    const isDegree = /latitude|longitude/.test(field)
    keys.push({ key, kind: isDegree ? 'decimal' : field.includes('radius') ? 'integer' : 'string' })
  }
  return keys
}

function unanswered(
  { config }: DatabaseSpec,
  { sample, createTable, addColumns }: TableInferenceRequest,
): TableProposal {
  const mayHaveRun =
    createTable || addColumns ? ' A statement that was begun may still be done: look at the table.' : ''
  return {
    ok: false,
    failure: {
      ...{ step: 'connect', code: 'no_answer' },
      message: `The database did not answer in time, or in a way that ended the look at it.${mayHaveRun}`,
    },
    ...{
      source: sample === null ? 'pipe' : 'sample',
      records_seen: 0,
      table: config.table,
      table_exists: null,
    },
    ...{ ddl: [], executed: [], columns: [], missing_columns: [], dedupe_candidates: [], observations: [] },
    warnings: [],
  }
}
