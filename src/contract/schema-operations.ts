/** Operations that compare records with a schema. `management/` serves them. */
import { managed, type Operation, ok, sampleBody, withBody } from './operation.ts'
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
] as const satisfies readonly Operation[]
