/** Operations that compare records with a schema. `management/` serves them. */
import { managed, type Operation, ok, sampleBody, schemaSampleBody, withBody } from './operation.ts'
import { SchemaCheckRequest, SchemaCheckResult } from './schema-check.ts'
import { SchemaInferenceRequest, SchemaProposal } from './schema-proposal.ts'

export const schemaOperations = [
  {
    ...managed('inferSchema', 'its_pipe'),
    needs: 'read',
    summary: 'Propose a schema from the newest records of a pipe, or from a sample',
    description:
      'Keys that the pipe itself adds to records are left out, because a schema describes records as clients send them. Nothing is stored: set the schema as `pipe_schema` of the pipe.',
    request: SchemaInferenceRequest,
    bodyLimits: sampleBody,
    success: ok('The proposal', SchemaProposal),
    errors: ['pipe_not_found', ...withBody],
  },
  {
    ...managed('checkSchema', 'its_pipe'),
    needs: 'read',
    summary: 'Check the newest records of a pipe, or a sample, against a schema',
    description:
      'Shows which records a schema would not accept before it is set. Keys that the pipe adds are left out of stored records first. Nothing is stored.',
    request: SchemaCheckRequest,
    bodyLimits: schemaSampleBody,
    success: ok('The records that do not match', SchemaCheckResult),
    errors: ['pipe_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
