/** The start of a buffer after its process was killed whose disk fails or is full at any step: the next one goes on, and nothing acknowledged is lost. */
import { errors, testSteps } from '../step-tests.ts'

testSteps('start after kill', errors)
