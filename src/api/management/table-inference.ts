/** Proposes a table from records, and creates it on request: POST …/destinations/infer. */

import { writesClientIp } from '../../contract/client-ip.ts'
import { typesWith } from '../../contract/destination-words.ts'
import { validationError } from '../../contract/errors.ts'
import { geoFieldKeys, type Pipe } from '../../contract/pipe.ts'
import type { TableInference, TableProposal } from '../../contract/table-proposal.ts'
import { pathKeys, type TransformStep } from '../../contract/transform.ts'
import type { TableInferenceRequest } from '../../delivery/delivery.ts'
import type { InferRequest } from '../../destinations/driver.ts'
import { descriptorOf } from '../../destinations/drivers.ts'
import { audited } from './audit.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { changed, newDestination, unstored } from './destination-bodies.ts'
import { specOf } from './destinations.ts'
import { requireDestination, requirePipe } from './lookup.ts'
import { sampleRecords } from './record-texts.ts'
import { filterFaultFor } from './transform-rules.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'trials' | 'checkTarget'>

export function tableInferenceUseCases({ metadata, trials, checkTarget }: Deps) {
  /** The destination in the body: a new one, or a stored destination as a PATCH would make it. */
  const specFrom = async (workspaceId: string, pipe: Pipe, body: TableInference) => {
    const { destination_config, transform } = body
    const given = { destination_config, transform }
    const filterFault = await filterFaultFor(body)
    const destination =
      'destination_id' in body
        ? changed(
            await requireDestination(metadata, workspaceId, {
              pipe_id: pipe.pipe_id,
              destination_id: body.destination_id.toLowerCase(),
            }),
            given,
            checkTarget,
            filterFault,
          )
        : unstored(
            newDestination({ ...given, destination_type: body.destination_type }, checkTarget, filterFault),
          )
    const spec = specOf({ workspaceId, pipe }, destination, destination.pinnedKey)
    const { tableKeys } = descriptorOf(spec.type)
    if (tableKeys !== undefined) return { spec, place: textsOf(spec.config, tableKeys) }
    throw validationError({ destination_id: `Only ${typesWith('isDatabase')} have a table.` })
  }
  return {
    async inferTable({ principal: { workspaceId }, path, body }: Call<'inferTable'>): Promise<TableProposal> {
      const pipe = await requirePipe(metadata, workspaceId, path)
      const { spec, place } = await specFrom(workspaceId, pipe, body)
      const request: TableInferenceRequest = {
        sample: body.sample === undefined ? null : sampleRecords(body.sample),
        enriched: transformedKeys(enrichedKeys(pipe), spec.transform?.map ?? []),
        keys: body.keys ?? null,
        createTable: body.create_table ?? false,
        addColumns: body.add_columns ?? false,
        dedupe: dedupeOf(body),
      }
      const work = async () => (await trials.infer(spec, request)) ?? noResponse(String(place.table), request)
      if (!request.createTable && !request.addColumns) return await work()
      const id = pipe.pipe_id
      const command = { workspaceId, operation: 'inferTable', resourceId: id, pipeId: id }
      return await audited(metadata.audit, { ...command, facts: place }, work, outcomeOf)
    },
  }
}

function textsOf(config: object, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(keys.map((key) => [key, String(Reflect.get(config, key))]))
}

/** The executed statements, for the audit log. */
function outcomeOf({ executed, failure }: TableProposal): object {
  if (failure !== null) return { status: 'failed', failure }
  const ddl = executed.map((statement) => statement.slice(0, auditedCharacters))
  return { status: ddl.length === 0 ? 'nothing_to_do' : 'executed', ddl }
}

/** A character has at most four bytes, and an entry has 16 KiB. */
const auditedCharacters = 3_500

function dedupeOf({ dedupe_key, dedupe_id = 'generated' }: TableInference): InferRequest['dedupe'] {
  return dedupe_key === undefined ? { kind: dedupe_id } : { kind: 'key', key: dedupe_key }
}

/** The keys that the pipe adds to records. */
export function enrichedKeys(pipe: Pipe): InferRequest['enriched'] {
  const keys: { key: string; kind: InferRequest['enriched'][number]['kind'] }[] = []
  if (pipe.pipe_add_ingest_ts) keys.push({ key: pipe.pipe_ingest_ts_field, kind: 'time' })
  if (writesClientIp(pipe)) keys.push({ key: pipe.pipe_ingest_ip_field, kind: 'string' })
  for (const field of geoFieldKeys) {
    const key = pipe[field]?.trim()
    if (!key) continue
    const isDegree = /latitude|longitude/.test(field)
    keys.push({ key, kind: isDegree ? 'decimal' : field.includes('radius') ? 'integer' : 'string' })
  }
  return keys
}

/** The keys that the pipe adds and that the map keeps, by their new names. */
export function transformedKeys(
  enriched: InferRequest['enriched'],
  map: readonly TransformStep[],
): InferRequest['enriched'] {
  let keys = [...enriched]
  const isOneOf = (paths: readonly string[], key: string) => paths.some((path) => isPathOf(path, key))
  const moved = (from: string, to: string) =>
    keys.some(({ key }) => key === from)
      ? keys
          .filter(({ key }) => key !== to || to === from)
          .map((one) => (one.key === from ? { ...one, key: to } : one))
      : keys.filter(({ key }) => key !== to)
  for (const step of map) {
    switch (step.op) {
      case 'rename':
        keys = moved(step.from, step.to)
        break
      case 'move': {
        const from = pathKeys(step.from)
        const [key] = Array.isArray(from) && from.length === 1 ? from : []
        keys = key === undefined ? keys.filter((one) => one.key !== step.to) : moved(key, step.to)
        break
      }
      case 'drop':
        keys = keys.filter(({ key }) => !isOneOf(step.paths, key))
        break
      case 'keep':
        keys = keys.filter(({ key }) => isOneOf(step.paths, key))
        break
      case 'mask':
        keys = keys.map((one) => (isOneOf(step.paths, one.key) ? { ...one, kind: 'string' } : one))
        break
      case 'constant':
        keys = keys.filter(({ key }) => key !== step.key)
    }
  }
  return keys
}

function isPathOf(path: string, key: string): boolean {
  const keys = pathKeys(path)
  return Array.isArray(keys) && keys.length === 1 && keys[0] === key
}

function noResponse(
  table: string,
  { sample, createTable, addColumns }: TableInferenceRequest,
): TableProposal {
  const mayHaveRun =
    createTable || addColumns ? ' A started statement may still be executed: check the table.' : ''
  return {
    ok: false,
    failure: {
      step: 'connect',
      code: 'no_answer',
      message: `The database did not respond in time, or its response could not be read.${mayHaveRun}`,
    },
    source: sample === null ? 'pipe' : 'sample',
    records_seen: 0,
    table,
    table_exists: null,
    ddl: [],
    executed: [],
    columns: [],
    missing_columns: [],
    dedupe_candidates: [],
    observations: [],
    warnings: [],
  }
}
