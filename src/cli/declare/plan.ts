/**
 * The difference between what a file declares and what a workspace has, as steps. Pure: no request is made here.
 *
 * Destinations have no names. A declared one is matched with an existing one of its pipe and type that has the same
 * target (database: host, port, database, table; bucket and key; URL); what then remains alone on both sides of one
 * type is the same destination with a changed target, so that its lane keeps its place.
 *
 * Secrets cannot be read back, so an existing one counts as unchanged unless `updateSecrets` is asked for.
 */
import type { DestinationBody, DestinationPatch, PipeDetail } from '../../client/client.ts'
import { describeTarget, kindOf } from '../../client/workspace.ts'
import type { ColumnMapping, Destination, DestinationStatus } from '../../contract/destination.ts'
import type { PipeLimits } from '../../contract/limits.ts'
import type { PipeUpdate } from '../../contract/pipe.ts'
import type { DeclaredDestination, DeclaredPipe } from './document.ts'

/** What is to be done on a pipe; `name` names it, for it may not have an id yet. */
export type Step = { name: string; says: string; destroys: boolean } & (
  | { kind: 'create-pipe'; fields: PipeUpdate }
  | { kind: 'update-pipe'; fields: PipeUpdate }
  | { kind: 'delete-pipe' }
  | { kind: 'put-limits'; limits: PipeLimits }
  | { kind: 'add-origin'; origin: string }
  | { kind: 'remove-origin'; originId: string }
  | { kind: 'create-destination'; body: DestinationBody; status: DestinationStatus | null }
  | { kind: 'update-destination'; destinationId: string; patch: DestinationPatch }
  | { kind: 'set-status'; destinationId: string; status: DestinationStatus }
  | { kind: 'delete-destination'; destinationId: string }
)

export interface PlanOptions {
  /** Delete pipes, destinations and origins that the file does not have. */
  prune: boolean
  updateSecrets: boolean
}

/** Steps in the order in which they are done: what creates before what deletes. Throws Failure for an unset variable. */
export function planSteps(
  declared: readonly DeclaredPipe[],
  existing: readonly PipeDetail[],
  options: PlanOptions,
): Step[] {
  const steps = declared.flatMap((pipe) => {
    const detail = existing.find((one) => one.pipe.pipe_name === pipe.name) ?? null
    return [
      ...pipeSteps(pipe, detail),
      ...originSteps(pipe, detail, options),
      ...destinationSteps(pipe, detail, options),
    ]
  })
  if (options.prune) {
    for (const { pipe } of existing) {
      if (declared.some((one) => one.name === pipe.pipe_name)) continue
      steps.push({
        kind: 'delete-pipe',
        name: pipe.pipe_name,
        says: `- pipe ${pipe.pipe_name}`,
        destroys: true,
      })
    }
  }
  return [...steps.filter((step) => !step.destroys), ...steps.filter((step) => step.destroys)]
}

/** Things in the workspace that the file does not have and that stay, since pruning was not asked for. */
export function unmentioned(declared: readonly DeclaredPipe[], existing: readonly PipeDetail[]): string[] {
  const pruned = planSteps(declared, existing, { prune: true, updateSecrets: false })
  return pruned.filter((step) => step.destroys).map((step) => step.says.replace(/^- /, ''))
}

function pipeSteps(pipe: DeclaredPipe, detail: PipeDetail | null): Step[] {
  const { name } = pipe
  const steps: Step[] = []
  if (detail === null) {
    const { pipe_status: status, ...fields } = pipe.fields
    steps.push({ kind: 'create-pipe', name, fields, says: `+ pipe ${name}`, destroys: false })
    if (status === 'paused') {
      const says = `~ pipe ${name}: pipe_status paused`
      steps.push({ kind: 'update-pipe', name, fields: { pipe_status: status }, says, destroys: false })
    }
  } else {
    const changed = changes(pipe.fields, detail.pipe)
    if (changed.length > 0) {
      const fields: PipeUpdate = Object.fromEntries(changed.map((one) => [one.key, one.to]))
      steps.push({
        kind: 'update-pipe',
        name,
        fields,
        says: `~ pipe ${name}: ${told(changed)}`,
        destroys: false,
      })
    }
  }
  if (pipe.limits !== null) {
    const changed = changes(pipe.limits, detail?.limits ?? {})
    if (changed.length > 0) {
      const says = `${detail?.limits ? '~' : '+'} limits of ${name}: ${told(changed)}`
      steps.push({ kind: 'put-limits', name, limits: pipe.limits, says, destroys: false })
    }
  }
  return steps
}

function originSteps(pipe: DeclaredPipe, detail: PipeDetail | null, options: PlanOptions): Step[] {
  if (pipe.origins === null) return []
  const { name } = pipe
  const existing = detail?.allowed_origins ?? []
  const steps: Step[] = [...new Set(pipe.origins)]
    .filter((origin) => !existing.some((one) => one.origin_domain === origin))
    .map((origin) => ({
      kind: 'add-origin',
      name,
      origin,
      says: `+ origin ${origin} of ${name}`,
      destroys: false,
    }))
  for (const one of options.prune ? existing : []) {
    if (pipe.origins.includes(one.origin_domain)) continue
    const says = `- origin ${one.origin_domain} of ${name}`
    steps.push({ kind: 'remove-origin', name, originId: one.pipe_allowed_origin_id, says, destroys: true })
  }
  return steps
}

function destinationSteps(pipe: DeclaredPipe, detail: PipeDetail | null, options: PlanOptions): Step[] {
  if (pipe.destinations === null) return []
  const existing = detail?.destinations ?? []
  const matched = matchDestinations(pipe.destinations, existing)
  const steps = pipe.destinations.flatMap((declared) => {
    const match = matched.get(declared)
    return match === undefined
      ? [createStep(pipe.name, declared)]
      : changeSteps(pipe.name, declared, match, options.updateSecrets)
  })
  const kept = new Set(matched.values())
  for (const one of options.prune ? existing : []) {
    if (kept.has(one)) continue
    const says = `- destination ${kindOf(one)} of ${pipe.name} (${describeTarget(one)})`
    steps.push({
      kind: 'delete-destination',
      name: pipe.name,
      destinationId: one.destination_id,
      says,
      destroys: true,
    })
  }
  return steps
}

/** Which existing destination each declared one is; see the header. */
export function matchDestinations(
  declared: readonly DeclaredDestination[],
  existing: readonly Destination[],
): Map<DeclaredDestination, Destination> {
  const matched = new Map<DeclaredDestination, Destination>()
  const free = new Set(existing)
  for (const one of declared) {
    const target = targetOf(one.type, one.config)
    const same = [...free].find(
      (other) => targetOf(other.destination_type, other.destination_config) === target,
    )
    if (same === undefined) continue
    matched.set(one, same)
    free.delete(same)
  }
  for (const one of declared) {
    const others = declared.filter((other) => other.type === one.type && !matched.has(other))
    const candidates = [...free].filter((other) => other.destination_type === one.type)
    if (matched.has(one) || others.length !== 1 || candidates.length !== 1) continue
    matched.set(one, candidates[0]!)
    free.delete(candidates[0]!)
  }
  return matched
}

function targetOf(type: string, config: Record<string, unknown>): string {
  const isMysql = ['mysql', 'mariadb'].includes(String(config.dialect ?? config.sql_dialect ?? ''))
  const keys: Record<string, unknown[]> = {
    destination_database: [
      config.host,
      String(config.port ?? (isMysql ? 3306 : 5432)),
      config.database,
      config.table,
    ],
    destination_object_store: [config.endpoint ?? null, config.bucket, config.key_template ?? null],
    destination_http_endpoint: [config.url],
    destination_pull: [],
  }
  return JSON.stringify([type, ...(keys[type] ?? [])])
}

function createStep(name: string, declared: DeclaredDestination): Step {
  const body: DestinationBody = {
    destination_type: declared.type,
    destination_config: { ...declared.config, ...declared.secrets() },
  }
  if (declared.maxRetrySeconds !== null) body.destination_max_retry_seconds = declared.maxRetrySeconds
  if (declared.columns !== null) body.columns = declared.columns
  if (declared.startFrom !== null) body.start_from = declared.startFrom
  const shown = { destination_type: declared.type, destination_config: declared.config }
  const says = `+ destination ${kindOf(shown)} of ${name} (${describeTarget(shown)})`
  return { kind: 'create-destination', name, body, status: declared.status, says, destroys: false }
}

function changeSteps(
  name: string,
  declared: DeclaredDestination,
  existing: Destination,
  updateSecrets: boolean,
): Step[] {
  const steps: Step[] = []
  const { destination_id: destinationId } = existing
  const what = `destination ${kindOf(existing)} of ${name} (${destinationId.slice(0, 8)})`
  const config = changes(declared.config, existing.destination_config)
  const patch: DestinationPatch = {}
  const parts: string[] = config.length === 0 ? [] : [told(config)]
  if (config.length > 0) patch.destination_config = Object.fromEntries(config.map((one) => [one.key, one.to]))
  if (updateSecrets && declared.secretNames.length > 0) {
    patch.destination_config = { ...patch.destination_config, ...declared.secrets() }
    parts.push(`${declared.secretNames.join(', ')} sent anew`)
  }
  const { maxRetrySeconds: retry, columns } = declared
  if (retry !== null && retry !== existing.destination_max_retry_seconds) {
    patch.destination_max_retry_seconds = retry
    parts.push(`destination_max_retry_seconds ${existing.destination_max_retry_seconds} → ${retry}`)
  }
  if (columns && !equal(columns.map(wholeColumn), existing.columns ?? [])) {
    patch.columns = columns
    parts.push(`${columns.length} columns replace ${existing.columns?.length ?? 0}`)
  }
  if (parts.length > 0) {
    const says = `~ ${what}: ${parts.join('; ')}`
    steps.push({ kind: 'update-destination', name, destinationId, patch, says, destroys: false })
  }
  if (declared.status !== null && declared.status !== existing.destination_status) {
    const says = `~ ${what}: destination_status ${existing.destination_status} → ${declared.status}`
    steps.push({ kind: 'set-status', name, destinationId, status: declared.status, says, destroys: false })
  }
  return steps
}

function wholeColumn(column: Partial<ColumnMapping>): Record<string, unknown> {
  return {
    column_name: column.column_name,
    column_type: column.column_type,
    source_field: column.source_field || null,
    semantic_role: column.semantic_role ?? null,
    nullable: column.nullable ?? true,
  }
}

interface Change {
  key: string
  from: unknown
  to: unknown
}

/** The keys of `wanted` whose value differs. */
function changes(wanted: object, has: object): Change[] {
  const current = new Map<string, unknown>(Object.entries(has))
  return Object.entries(wanted)
    .map(([key, to]) => ({ key, from: current.get(key), to }))
    .filter(
      ({ key, from, to }) =>
        !(key === 'port' ? String(from) === String(to) : equal(trimmed(from), trimmed(to))),
    )
}

/** The daemon trims the names of fields it writes. */
function trimmed(value: unknown): unknown {
  return typeof value === 'string' ? value.trim() : (value ?? null)
}

function equal(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b)
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, one]) => `${JSON.stringify(key)}:${canonical(one)}`).join(',')}}`
}

function told(list: readonly Change[]): string {
  return list
    .map(({ key, from, to }) =>
      from === undefined
        ? `${key} ${JSON.stringify(to)}`
        : `${key} ${JSON.stringify(from)} → ${JSON.stringify(to)}`,
    )
    .join(', ')
}
