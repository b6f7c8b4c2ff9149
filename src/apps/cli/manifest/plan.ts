/**
 * Computes the difference between a file and a workspace, as steps. Pure: makes no requests. `match.ts` matches
 * declared and existing destinations.
 *
 * Secrets cannot be read back, so a stored secret counts as unchanged unless `updateSecrets` is set.
 */
import { isDeepStrictEqual } from 'node:util'
import { wholeColumn } from '../../../contract/column-rules.ts'
import type { Destination, DestinationStatus } from '../../../contract/destination.ts'
import { redactedConfig } from '../../../contract/destination-secrets.ts'
import type { Pipe, PipeLimits, PipeUpdate } from '../../../contract/pipe.ts'
import { isSameServer } from '../../../contract/secret-server.ts'
import type { DestinationBody, DestinationPatch, PipeDetail } from '../../client/client.ts'
import { describeTarget, kindOf } from '../../client/workspace.ts'
import type { DeclaredDestination, DeclaredPipe } from './document.ts'
import { matchDestinations, unnamedMatches } from './match.ts'
import { sourceChange } from './source.ts'

/** An action on a pipe. `name` identifies the pipe, which may not have an id yet. */
export type Step = { name: string; summary: string } & (
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
  /** Deletes pipes, destinations and origins that are not in the file. */
  prune: boolean
  updateSecrets: boolean
}

/** Steps in the order of execution: creations before deletions. Throws Failure for a variable that is not set. */
export function planSteps(
  declared: readonly DeclaredPipe[],
  existing: readonly PipeDetail[],
  options: PlanOptions,
): Step[] {
  const steps = declared.flatMap((pipe) => {
    const detail = existing.find((one) => one.pipe.pipe_name === pipe.name) ?? null
    return [
      ...pipeSteps(pipe, detail, options),
      ...originSteps(pipe, detail, options),
      ...destinationSteps(pipe, detail, options),
    ]
  })
  if (options.prune) {
    for (const { pipe } of existing) {
      if (declared.some((one) => one.name === pipe.pipe_name)) continue
      steps.push({ kind: 'delete-pipe', name: pipe.pipe_name, summary: `- pipe ${pipe.pipe_name}` })
    }
  }
  return [...steps.filter((step) => !destroys(step)), ...steps.filter(destroys)]
}

export function destroys({ kind }: Step): boolean {
  return /^(delete|remove)-/.test(kind)
}

/** Destinations that the file declares without a name, each with the criterion that matched it. */
export function foundUnnamed(declared: readonly DeclaredPipe[], existing: readonly PipeDetail[]): string[] {
  return declared.flatMap(({ name, destinations }) => {
    const detail = existing.find((one) => one.pipe.pipe_name === name)
    if (detail === undefined || destinations === null) return []
    return unnamedMatches(name, matchDestinations(name, destinations, detail.destinations))
  })
}

/** Resources that are not in the file and are kept, because pruning is off. */
export function extras(declared: readonly DeclaredPipe[], existing: readonly PipeDetail[]): string[] {
  const pruned = planSteps(declared, existing, { prune: true, updateSecrets: false })
  return pruned.filter(destroys).map((step) => step.summary.replace(/^- /, ''))
}

function pipeSteps(pipe: DeclaredPipe, detail: PipeDetail | null, options: PlanOptions): Step[] {
  const { name, source } = pipe
  const steps: Step[] = []
  if (detail === null) {
    const { pipe_status: status, ...own } = pipe.fields
    const fields = source
      ? { ...own, pipe_source: source.given({ secrets: true, keys: source.secretKeys }) }
      : own
    steps.push({ kind: 'create-pipe', name, fields, summary: `+ pipe ${name}` })
    if (status === 'paused') {
      const summary = `~ pipe ${name}: pipe_status paused`
      steps.push({ kind: 'update-pipe', name, fields: { pipe_status: status }, summary })
    }
  } else {
    const { fields, parts } = pipeEdit(pipe, detail.pipe, options.updateSecrets)
    if (parts.length > 0)
      steps.push({ kind: 'update-pipe', name, fields, summary: `~ pipe ${name}: ${parts.join(', ')}` })
  }
  if (pipe.limits !== null) {
    const changed = changes(pipe.limits, detail?.limits ?? {})
    if (changed.length > 0) {
      const summary = `${detail?.limits ? '~' : '+'} limits of ${name}: ${describe(changed)}`
      steps.push({ kind: 'put-limits', name, limits: pipe.limits, summary })
    }
  }
  return steps
}

function pipeEdit(
  { fields: own, source }: DeclaredPipe,
  stored: Pipe,
  updateSecrets: boolean,
): { fields: PipeUpdate; parts: string[] } {
  const changed = changes(own, stored)
  const fields: PipeUpdate = Object.fromEntries(changed.map((one) => [one.key, one.to]))
  const parts = changed.length > 0 ? [describe(changed)] : []
  if (source === null && stored.pipe_source !== null)
    return { fields: { ...fields, pipe_source: null }, parts: [...parts, 'pipe_source removed'] }
  const change = source ? sourceChange(source, stored.pipe_source, updateSecrets) : null
  if (change === null) return { fields, parts }
  return { fields: { ...fields, pipe_source: change.given }, parts: [...parts, change.words] }
}

function originSteps(pipe: DeclaredPipe, detail: PipeDetail | null, options: PlanOptions): Step[] {
  if (pipe.origins === null) return []
  const { name } = pipe
  const existing = detail?.allowed_origins ?? []
  const steps: Step[] = [...new Set(pipe.origins)]
    .filter((origin) => !existing.some((one) => one.origin_domain === origin))
    .map((origin) => ({ kind: 'add-origin', name, origin, summary: `+ origin ${origin} of ${name}` }))
  for (const one of options.prune ? existing : []) {
    if (pipe.origins.includes(one.origin_domain)) continue
    const summary = `- origin ${one.origin_domain} of ${name}`
    steps.push({ kind: 'remove-origin', name, originId: one.pipe_allowed_origin_id, summary })
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
    steps.push({ kind: 'delete-destination', name: pipe.name, destinationId: one.destination_id, summary })
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
  return { kind: 'create-destination', name, body, status: declared.status, summary }
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
  const edits = [
    configEdit(declared, existing, updateSecrets),
    settingsEdit(declared, existing),
    retryEdit(declared, existing),
    columnsEdit(declared, existing),
    transformEdit(declared, existing, updateSecrets),
  ]
  const parts = edits.flatMap((edit) => edit.parts)
  if (parts.length > 0) {
    const patch: DestinationPatch = Object.assign({}, ...edits.map((edit) => edit.patch))
    const summary = `~ ${what}: ${parts.join('; ')}`
    steps.push({ kind: 'update-destination', name, destinationId, patch, summary })
  }
  if (declared.status !== null && declared.status !== existing.destination_status) {
    const summary = `~ ${what}: destination_status ${existing.destination_status} → ${declared.status}`
    steps.push({ kind: 'set-status', name, destinationId, status: declared.status, summary })
  }
  return steps
}

/** A part of a destination's change. `parts` describes it and is empty if nothing changes. */
interface Edit {
  patch: DestinationPatch
  parts: string[]
}

const noEdit: Edit = { patch: {}, parts: [] }

/**
 * The config is compared and printed in the form that the daemon shows, and sent in the form of the file. A secret
 * that is not stored yet is always sent; a stored one cannot be compared. A changed URL is sent with its secret
 * parts, which belong to the new address. A change of the server needs all secrets again.
 */
function configEdit(declared: DeclaredDestination, existing: Destination, updateSecrets: boolean): Edit {
  const { type, config, secretPlaces } = declared
  const { destination_config: stored } = existing
  const changed = changes(redactedConfig(type, config), stored)
  const isChanged = (place: string) => changed.some(({ key }) => key === place)
  const sendsAll = updateSecrets || !isSameServer(type, stored, { ...stored, ...config })
  const missing = secretPlaces.filter((place) => !isSet(stored, place))
  const sent = secretPlaces.filter((place) => sendsAll || missing.includes(place) || isChanged(place))
  const again = sent.filter((place) => !missing.includes(place) && !isChanged(place))
  const parts = [
    ...(changed.length > 0 ? [describe(changed)] : []),
    ...(missing.length > 0 ? [`${missing.join(', ')} set`] : []),
    ...(again.length > 0 ? [`${again.join(', ')} sent again`] : []),
  ]
  if (changed.length === 0 && sent.length === 0) return noEdit
  const fields = Object.fromEntries(changed.map(({ key }) => [key, config[key]]))
  return { patch: { destination_config: { ...fields, ...declared.secrets(sent) } }, parts }
}

function settingsEdit({ settings }: DeclaredDestination, existing: Destination): Edit {
  // Null is the default name, which only the daemon knows.
  const { destination_name: own, ...others } = settings
  const changed = changes(typeof own === 'string' ? settings : others, existing)
  if (changed.length === 0) return noEdit
  return { patch: Object.fromEntries(changed.map(({ key, to }) => [key, to])), parts: [describe(changed)] }
}

function retryEdit({ maxRetrySeconds }: DeclaredDestination, existing: Destination): Edit {
  const { destination_max_retry_seconds: stored } = existing
  if (maxRetrySeconds === null || maxRetrySeconds === stored) return noEdit
  return {
    patch: { destination_max_retry_seconds: maxRetrySeconds },
    parts: [`destination_max_retry_seconds ${stored} → ${maxRetrySeconds}`],
  }
}

function columnsEdit({ columns }: DeclaredDestination, existing: Destination): Edit {
  if (!columns || isDeepStrictEqual(columns.map(wholeColumn), existing.columns ?? [])) return noEdit
  return { patch: { columns }, parts: [`${columns.length} columns replace ${existing.columns?.length ?? 0}`] }
}

/** A stored salt cannot be compared. */
function transformEdit(
  declared: DeclaredDestination,
  { transform: stored = null }: Destination,
  updateSecrets: boolean,
): Edit {
  const { transform, hasMaskSalt } = declared
  if (transform === undefined) return noEdit
  const complete = (one: typeof transform) =>
    one === null ? null : { filter: one.filter ?? null, map: one.map ?? [] }
  const needsSalt = hasMaskSalt && (updateSecrets || stored?.mask_salt === undefined)
  if (isDeepStrictEqual(complete(transform), complete(stored)) && !needsSalt) return noEdit
  if (transform === null) return { patch: { transform }, parts: ['transform removed'] }
  const salt = needsSalt ? { mask_salt: declared.maskSalt() } : {}
  return { patch: { transform: { ...transform, ...salt } }, parts: ['transform set'] }
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
        !(key === 'port' ? String(from) === String(to) : isDeepStrictEqual(trimmed(from), trimmed(to))),
    )
}

/** The daemon trims these names. */
function trimmed(value: unknown): unknown {
  return typeof value === 'string' ? value.trim() : (value ?? null)
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
