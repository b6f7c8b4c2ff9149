/**
 * Finds the existing destination of a pipe for each declared one. Pure.
 *
 *   1. A destination of the same name. All other differences are changes, so that its lane keeps its position.
 *   2. The only one of the same type and target (database: host, port, database, table; bucket and key; URL) whose name is not
 *      in the file: it is renamed, or the file was written before destinations had names.
 *   3. For those without a name in the file: if one remains on both sides of one type, it is the same with a changed target.
 *
 * Any other declared destination is new. A destination without a name that can be either new or changed is rejected. If it
 * were created and the other one deleted, the undelivered messages of the other one would be lost.
 */
import type { Destination } from '../../../contract/destination.ts'
import { redactedConfig } from '../../../contract/destination-secrets.ts'
import { type DestinationType, wordsOf } from '../../../contract/destination-words.ts'
import { type Failure, usageFailure } from '../../client/failure.ts'
import { describeTarget, kindOf } from '../../client/workspace.ts'
import type { DeclaredDestination } from './document.ts'

/** Throws Failure (usage) if a name has another type, or if a destination without a name can be one of several. */
export function matchDestinations(
  pipeName: string,
  declared: readonly DeclaredDestination[],
  existing: readonly Destination[],
): Map<DeclaredDestination, Destination> {
  const matched = new Map<DeclaredDestination, Destination>()
  const free = new Set(existing)
  const match = (one: DeclaredDestination, other: Destination) => {
    matched.set(one, other)
    free.delete(other)
  }
  for (const one of declared) {
    const named = existing.find((other) => other.destination_name === nameOf(one))
    if (named === undefined) continue
    if (named.destination_type !== one.type) throw otherType(pipeName, named, one)
    match(one, named)
  }
  for (const pair of matched) rejectMovedName(pipeName, pair, declared, matched)
  for (const target of new Set(declared.map(declaredTarget))) {
    const open = declared.filter((one) => !matched.has(one) && declaredTarget(one) === target)
    const candidates = [...free].filter((other) => existingTarget(other) === target)
    // Several with the same target and without names: an export lists them in their stored order.
    const isTold = open.length === 1 || open.every((one) => nameOf(one) === null)
    if (!isTold || open.length !== candidates.length || isNamedPull(open)) continue
    for (const [index, one] of open.entries()) match(one, candidates[index]!)
  }
  const open = declared.filter((one) => !matched.has(one) && nameOf(one) === null)
  matchUnnamed(pipeName, open, free, match)
  return matched
}

/** Pull destinations have no target to distinguish them, so a file cannot rename them. */
function isNamedPull([one]: readonly DeclaredDestination[]): boolean {
  return one !== undefined && wordsOf(one.type).isPulled && nameOf(one) !== null
}

/** The name of one destination with the target of another can mean a swap, or two new targets. It is rejected. */
function rejectMovedName(
  pipeName: string,
  [one, existing]: [DeclaredDestination, Destination],
  declared: readonly DeclaredDestination[],
  matched: ReadonlyMap<DeclaredDestination, Destination>,
): void {
  const target = existingTarget(existing)
  if (wordsOf(one.type).isPulled || declaredTarget(one) === target) return
  const heir = declared.find((other) => !matched.has(other) && declaredTarget(other) === target)
  if (heir === undefined || nameOf(heir) === null) return
  const name = `${pipeName}/${existing.destination_name}`
  throw usageFailure(
    `the file gives the target of ${name} to ${nameOf(heir)}, and another target to ${name}: the pending messages of ${name} would go there`,
    `if it is renamed, do that first: \`pipectl destinations update ${name} --name ${nameOf(heir)}\``,
  )
}

function matchUnnamed(
  pipeName: string,
  unnamed: readonly DeclaredDestination[],
  free: ReadonlySet<Destination>,
  match: (one: DeclaredDestination, other: Destination) => void,
): void {
  for (const type of new Set(unnamed.map((one) => one.type))) {
    const open = unnamed.filter((one) => one.type === type)
    const candidates = [...free].filter((other) => other.destination_type === type)
    if (candidates.length === 0) continue
    if (open.length === 1 && candidates.length === 1) match(open[0]!, candidates[0]!)
    // The file does not distinguish them, so any order is correct.
    else if (wordsOf(type).isPulled && open.length >= candidates.length)
      for (const [index, other] of candidates.entries()) match(open[index]!, other)
    else throw ambiguous(pipeName, open, candidates)
  }
}

/** Existing destinations that the file does not name, with the criterion that matched them. */
export function unnamedMatches(
  pipeName: string,
  matched: ReadonlyMap<DeclaredDestination, Destination>,
): string[] {
  return [...matched]
    .filter(([one]) => nameOf(one) === null)
    .map(([one, other]) => {
      const by = declaredTarget(one) === existingTarget(other) ? 'target' : 'kind'
      return `${pipeName}/${other.destination_name} (by its ${by})`
    })
}

function otherType(pipeName: string, existing: Destination, declared: DeclaredDestination): Failure {
  const name = `${pipeName}/${existing.destination_name}`
  const kind = kindOf({ destination_type: declared.type })
  const pending = existing.lane.pending_messages
  return usageFailure(
    `${name} is a ${kindOf(existing)}, but a ${kind} in the file: the type of a destination cannot be changed`,
    `give the ${kind} a destination_name of its own; ${name} goes with --prune, or \`pipectl destinations delete ${name}\`, once it has delivered what is pending (${pending} messages)`,
  )
}

function ambiguous(
  pipeName: string,
  open: readonly DeclaredDestination[],
  candidates: readonly Destination[],
): Failure {
  const shown = open.map((one) =>
    describeTarget({
      destination_type: one.type,
      destination_config: redactedConfig(one.type, one.config),
    }),
  )
  const names = candidates.map(
    (other) => `\n  ${pipeName}/${other.destination_name}  ${describeTarget(other)}`,
  )
  const kind = kindOf(candidates[0]!)
  return usageFailure(
    `the file gives ${shown.join(' and ')} no destination_name: a new ${kind} of ${pipeName}, or a change of one of these?${names.join('')}`,
    'add destination_name to the file: the present name, or a new one; `pipectl export` prints the present names',
  )
}

function nameOf({ settings }: DeclaredDestination): string | null {
  return settings.destination_name ?? null
}

function declaredTarget({ type, config }: DeclaredDestination): string {
  return targetOf(type, redactedConfig(type, config))
}

function existingTarget({ destination_type: type, destination_config: config }: Destination): string {
  return targetOf(type, config)
}

function targetOf(type: DestinationType, config: Record<string, unknown>): string {
  return JSON.stringify([type, ...wordsOf(type).targetKey(config)])
}
