-- How a bucket is stored: as three numbers, see `token_bucket.lua`. If the instant is short enough,
-- the four bits before it say to which multiple the time to live was rounded up: 256 microseconds,
-- times 4 for each step; 0 if it was not. As long as the bucket is full before that, the time to
-- live need not be renewed, which makes writes cheap.
local BEFORE, HIGH = 16, 281474976710656

local function bucket()
  local it = { SHORT = { [11] = '>BI6I2I2', [15] = '>BI6I4I4' } }

  function it.step(round)
    return 256 * 4 ^ round
  end

  -- By as much as leaves it within the period, and in proportion to the debt: most keys are seen
  -- once, and should not linger.
  local function rounding(rule, debt)
    local _, bits = math.frexp(min(rule[3] - debt, 64 * debt))
    return max(0, min(15, floor((bits - 9) / 2)))
  end

  function it.packed(round, full_at, rest, rate)
    local length = max(rest, rate) < 65536 and 11 or 15
    if max(rest, rate) >= 4294967296 or full_at >= BEFORE * HIGH then
      return pack('>I7I7I7', full_at, rest, rate)
    end
    local head = floor(full_at / HIGH)
    return pack(it.SHORT[length], round * BEFORE + head, full_at - head * HIGH, rest, rate)
  end

  -- Writes it with a time to live of its own.
  function it.keep(key, rule, at, was, full_at, rest, rate)
    local round = rounding(rule, full_at - at)
    local final = full_at + min(rest, 1)
    local cell = it.step(round)
    if round > 0 then final = floor(full_at / cell) * cell + cell end
    return keep(key, was, it.packed(round, full_at, rest, rate), final - at)
  end

  return it
end
