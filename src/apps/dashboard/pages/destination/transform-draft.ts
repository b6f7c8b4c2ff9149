/** The form state of a transform, and the value to send. Pure. */
import type {
  GivenTransform,
  ShownTransform,
  TransformOp,
  TransformStep,
} from '../../../../contract/transform.ts'

/**
 * Every step has all fields, so that a change of `op` keeps the typed texts. Only the fields of its `op` are sent.
 */
export interface StepDraft {
  /** Identifies the step only within the form. */
  id: number
  op: TransformOp
  /** One per line. */
  paths: string
  from: string
  to: string
  key: string
  value: string
}

export interface TransformDraft {
  filter: string
  steps: readonly StepDraft[]
  /** Never the stored salt, which is not shown. Empty keeps it. */
  salt: string
}

export const noTransform: TransformDraft = { filter: '', steps: [], salt: '' }
const emptyStep = { op: 'rename', paths: '', from: '', to: '', key: '', value: '' } as const

/** Adds a step at the end. */
export function withStep(steps: readonly StepDraft[]): StepDraft[] {
  return [...steps, { ...emptyStep, id: Math.max(-1, ...steps.map(({ id }) => id)) + 1 }]
}

/** Swaps the step at that index with the next one. */
export function swapped(steps: readonly StepDraft[], at: number): StepDraft[] {
  const [one, next] = [steps[at], steps[at + 1]]
  if (one === undefined || next === undefined) return [...steps]
  return steps.with(at, next).with(at + 1, one)
}

export function transformDraftOf(transform: ShownTransform | null | undefined): TransformDraft {
  if (!transform) return noTransform
  const steps = transform.map.map((step, id) => ({ ...emptyStep, id, ...textsOf(step) }))
  return { filter: transform.filter ?? '', steps, salt: '' }
}

function textsOf(step: TransformStep): Partial<StepDraft> & { op: TransformOp } {
  if (step.op === 'constant') return { ...step, value: constantText(step.value) }
  return 'paths' in step ? { op: step.op, paths: step.paths.join('\n') } : step
}

/**
 * Null: neither a filter nor steps. An invalid value is sent unchanged, so that the API reports the error at its
 * field.
 */
export function givenTransformOf({ filter, steps, salt }: TransformDraft): GivenTransform | null {
  if (filter.trim() === '' && steps.length === 0) return null
  return {
    filter: filter.trim() === '' ? null : filter.trim(),
    map: steps.map(stepOf),
    ...(salt === '' ? {} : { mask_salt: salt }),
  }
}

function stepOf({ op, paths, from, to, key, value }: StepDraft): TransformStep {
  if (op === 'rename' || op === 'move') return { op, from, to }
  if (op === 'constant') return { op, key, value: constantOf(value) }
  return { op, paths: paths.split('\n').filter((line) => line.trim() !== '') }
}

type Constant = string | number | boolean | null

/** `12`, `true`, `null` and `"12"` have their JSON meaning. Anything else is a text. */
function constantOf(text: string): Constant {
  try {
    const value: unknown = JSON.parse(text)
    if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return value as Constant
  } catch {}
  return text
}

function constantText(value: Constant): string {
  return typeof value === 'string' && constantOf(value) === value ? value : JSON.stringify(value)
}
