/**
 * The difference between what a file declares and what a workspace has, as steps. Pure: no request is made here.
 * Which existing destination a declared one is: `match.ts`.
 *
 * Secrets cannot be read back, so an existing one counts as unchanged unless `updateSecrets` is asked for.
 */
import { wholeColumn } from '../../../contract/column-rules.ts'
import type { Destination, DestinationStatus } from '../../../contract/destination.ts'
import { redactedConfig } from '../../../contract/destination-secrets.ts'
import type { PipeLimits, PipeUpdate } from '../../../contract/pipe.ts'
import { isSameServer } from '../../../contract/secret-server.ts'
import type { DestinationBody, DestinationPatch, PipeDetail } from '../../client/client.ts'
import { describeTarget, kindOf } from '../../client/workspace.ts'
import type { DeclaredDestination, DeclaredPipe } from './document.ts'
import { matchDestinations, unnamedMatches } from './match.ts'

/** An action on a pipe. `name` identifies the pipe, which may not have an id yet. */
export type Step = { name: string; summary: string; destroys: boolean } & (
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
        summary: `- pipe ${pipe.pipe_name}`,
        destroys: true,
      })
    }
  }
  return [...steps.filter((step) => !step.destroys), ...steps.filter((step) => step.destroys)]
}

/** Destinations that the file means without naming them, each with what it was found by. */
export function foundUnnamed(declared: readonly DeclaredPipe[], existing: readonly PipeDetail[]): string[] {
  return declared.flatMap(({ name, destinations }) => {
    const detail = existing.find((one) => one.pipe.pipe_name === name)
    if (detail === undefined || destinations === null) return []
    return unnamedMatches(name, matchDestinations(name, destinations, detail.destinations))
  })
}

/** Things in the workspace that the file does not have and that stay, since pruning was not asked for. */
export function extras(declared: readonly DeclaredPipe[], existing: readonly PipeDetail[]): string[] {
  const pruned = planSteps(declared, existing, { prune: true, updateSecrets: false })
  return pruned.filter((step) => step.destroys).map((step) => step.summary.replace(/^- /, ''))
}

function pipeSteps(pipe: DeclaredPipe, detail: PipeDetail | null): Step[] {
  const { name } = pipe
  const steps: Step[] = []
  if (detail === null) {
    const { pipe_status: status, ...fields } = pipe.fields
    steps.push({ kind: 'create-pipe', name, fields, summary: `+ pipe ${name}`, destroys: false })
    if (status === 'paused') {
      const summary = `~ pipe ${name}: pipe_status paused`
      steps.push({ kind: 'update-pipe', name, fields: { pipe_status: status }, summary, destroys: false })
    }
  } else {
    const changed = changes(pipe.fields, detail.pipe)
    if (changed.length > 0) {
      const fields: PipeUpdate = Object.fromEntries(changed.map((one) => [one.key, one.to]))
      steps.push({
        kind: 'update-pipe',
        name,
        fields,
        summary: `~ pipe ${name}: ${describe(changed)}`,
        destroys: false,
      })
    }
  }
  if (pipe.limits !== null) {
    const changed = changes(pipe.limits, detail?.limits ?? {})
    if (changed.length > 0) {
      const summary = `${detail?.limits ? '~' : '+'} limits of ${name}: ${describe(changed)}`
      steps.push({ kind: 'put-limits', name, limits: pipe.limits, summary, destroys: false })
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
      summary: `+ origin ${origin} of ${name}`,
      destroys: false,
    }))
  for (const one of options.prune ? existing : []) {
    if (pipe.origins.includes(one.origin_domain)) continue
    const summary = `- origin ${one.origin_domain} of ${name}`
    steps.push({ kind: 'remove-origin', name, originId: one.pipe_allowed_origin_id, summary, destroys: true })
  }
  return steps
}

function destinationSteps(pipe: DeclaredPipe, detail: PipeDetail | null, options: PlanOptions): Step[] {
  if (pipe.destinations === null) return []
  const existing = detail?.destinations ?? []
  const matched = matchDestinations(pipe.name, pipe.destinations, existing)
  const steps = pipe.destinations.flatMap((declared) => {
    const match = matched.get(declared)
    return match === undefined
      ? [createStep(pipe.name, declared)]
      : changeSteps(pipe.name, declared, match, options.updateSecrets)
  })
  const kept = new Set(matched.values())
  for (const one of options.prune ? existing : []) {
    if (kept.has(one)) continue
    const summary = `- destination ${pipe.name}/${one.destination_name} (${kindOf(one)}, ${describeTarget(one)})`
    steps.push({
      kind: 'delete-destination',
      name: pipe.name,
      destinationId: one.destination_id,
      summary,
      destroys: true,
    })
  }
  return steps
}

function createStep(name: string, declared: DeclaredDestination): Step {
  const body: DestinationBody = {
    destination_type: declared.type,
    destination_config: { ...declared.config, ...declared.secrets(declared.secretPlaces) },
    ...declared.settings,
  }
  if (declared.maxRetrySeconds !== null) body.destination_max_retry_seconds = declared.maxRetrySeconds
  if (declared.columns !== null) body.columns = declared.columns
  if (declared.transform) {
    const salt = declared.hasMaskSalt ? { mask_salt: declared.maskSalt() } : {}
    body.transform = { ...declared.transform, ...salt }
  }
  if (declared.startFrom !== null) body.start_from = declared.startFrom
  const shown = {
    destination_type: declared.type,
    destination_config: redactedConfig(declared.type, declared.config),
  }
  const own = declared.settings.destination_name ?? null
  const summary = `+ destination ${name}${own === null ? '' : `/${own}`} (${kindOf(shown)}, ${describeTarget(shown)})`
  return { kind: 'create-destination', name, body, status: declared.status, summary, destroys: false }
}

function changeSteps(
  name: string,
  declared: DeclaredDestination,
  existing: Destination,
  updateSecrets: boolean,
): Step[] {
  const steps: Step[] = []
  const { destination_id: destinationId } = existing
  const what = `destination ${name}/${existing.destination_name}`
  // Compared and printed as the daemon shows it; sent as the file has it.
  const config = changes(redactedConfig(declared.type, declared.config), existing.destination_config)
  const patch: DestinationPatch = {}
  const parts: string[] = config.length === 0 ? [] : [describe(config)]
  if (config.length > 0) {
    patch.destination_config = Object.fromEntries(config.map(({ key }) => [key, declared.config[key]]))
  }
  // One that is not there yet is sent in any case; whether a stored one differs cannot be seen. A URL that changes is
  // sent with its secret parts: they belong to the new place. Another server needs all of them again.
  const { type } = declared
  const merged = { ...existing.destination_config, ...declared.config }
  const isMoved = !isSameServer(type, existing.destination_config, merged)
  const changed = (place: string) => config.some(({ key }) => key === place)
  const missing = declared.secretPlaces.filter((place) => !isSet(existing.destination_config, place))
  const sent = declared.secretPlaces.filter(
    (place) => updateSecrets || isMoved || missing.includes(place) || changed(place),
  )
  if (sent.length > 0) {
    patch.destination_config = { ...patch.destination_config, ...declared.secrets(sent) }
    const again = sent.filter((place) => !missing.includes(place) && !changed(place))
    if (missing.length > 0) parts.push(`${missing.join(', ')} set`)
    if (again.length > 0) parts.push(`${again.join(', ')} sent again`)
  }
  // Null is the default name: which one that is only the daemon knows.
  const { destination_name: own, ...others } = declared.settings
  const wanted = typeof own === 'string' ? declared.settings : others
  const settings = changes(wanted, existing)
  if (settings.length > 0) {
    Object.assign(patch, Object.fromEntries(settings.map(({ key, to }) => [key, to])))
    parts.push(describe(settings))
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
  const transform = changedTransform(declared, existing, updateSecrets)
  if (transform !== undefined) {
    patch.transform = transform
    parts.push(transform === null ? 'transform removed' : 'transform set')
  }
  if (parts.length > 0) {
    const summary = `~ ${what}: ${parts.join('; ')}`
    steps.push({ kind: 'update-destination', name, destinationId, patch, summary, destroys: false })
  }
  if (declared.status !== null && declared.status !== existing.destination_status) {
    const summary = `~ ${what}: destination_status ${existing.destination_status} → ${declared.status}`
    steps.push({ kind: 'set-status', name, destinationId, status: declared.status, summary, destroys: false })
  }
  return steps
}

/** Undefined: it is as the file says. Whether a stored salt differs cannot be seen. */
function changedTransform(
  declared: DeclaredDestination,
  { transform: has = null }: Destination,
  updateSecrets: boolean,
): DestinationPatch['transform'] {
  const { transform: wanted, hasMaskSalt } = declared
  if (wanted === undefined) return undefined
  const whole = (one: typeof wanted) =>
    one === null ? null : { filter: one.filter ?? null, map: one.map ?? [] }
  const needsSalt = hasMaskSalt && (updateSecrets || has?.mask_salt === undefined)
  if (equal(whole(wanted), whole(has)) && !needsSalt) return undefined
  return wanted === null ? null : { ...wanted, ...(needsSalt ? { mask_salt: declared.maskSalt() } : {}) }
}

function isSet(config: Record<string, unknown>, place: string): boolean {
  const [key = '', ...member] = place.split('.')
  const value = config[key]
  if (member.length === 0) return value !== null && value !== undefined
  const names = typeof value === 'object' && value !== null ? Object.keys(value) : []
  return names.some((name) => name.toLowerCase() === member.join('.').toLowerCase())
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

function describe(list: readonly Change[]): string {
  return list
    .map(({ key, from, to }) =>
      from === undefined
        ? `${key} ${JSON.stringify(to)}`
        : `${key} ${JSON.stringify(from)} → ${JSON.stringify(to)}`,
    )
    .join(', ')
}
