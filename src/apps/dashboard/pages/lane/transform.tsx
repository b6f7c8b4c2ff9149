/** Describes the transform of a destination: filter, steps in order, whether there is a salt. */
import type { ShownTransform, TransformStep } from '../../../../contract/transform.ts'
import { Code, Section, Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'

export function TransformSection({ transform }: { transform: ShownTransform }) {
  const { filter, map, mask_salt: salt } = transform
  return (
    <Section title="Filter and transform">
      {filter === null ? (
        <Soft>No filter: the destination receives all records of the pipe.</Soft>
      ) : (
        <Code label="The destination receives the records for which this is true" text={filter} />
      )}
      {map.length === 0 ? (
        <Soft>No steps: records are sent unchanged.</Soft>
      ) : (
        <ol aria-label="Steps of the map">
          {map.map((step, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: steps have no identity but their place, and are only shown
            <li key={index}>
              {`${index + 1}. `}
              <Outside text={wordsOfStep(step)} />
            </li>
          ))}
        </ol>
      )}
      {salt === undefined ? null : <Soft>Masked with a salt, which is never shown ({salt}).</Soft>}
    </Section>
  )
}

function wordsOfStep(step: TransformStep): string {
  if (step.op === 'rename') return `rename ${step.from} to ${step.to}`
  if (step.op === 'move') return `move ${step.from} to ${step.to} at the top level`
  if (step.op === 'constant') return `set ${step.key} to ${JSON.stringify(step.value)}`
  const paths = step.paths.join(', ')
  return step.op === 'keep' ? `keep only ${paths}` : `${step.op} ${paths}`
}
