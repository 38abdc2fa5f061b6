-- How a bucket is stored: when it is full, the remainder and the pace, see `token_bucket.lua`; and to
-- which multiple its time to live was rounded up: 256 microseconds, times 16 for each step; 0 if it
-- was not. As long as the bucket is full before that, the time to live need not be renewed, which
-- makes writes cheap.
--
-- A small pace, of which nothing ever remains, is stored as one integer, for which Redis needs the
-- least memory, and to which it adds in place: the microseconds since 2025, and behind them four
-- digits for the rounding and the pace. Otherwise as three numbers, an instant first; if that is
-- short enough, the rounding is in the four bits before it.
local BEFORE, HIGH = 16, 281474976710656
local SINCE, DIGITS = 1735689600000000, 10000
-- The integers have more digits than any of the strings has bytes, but for the longest.
local FEWEST, MOST = 1e12, 9e14
-- A pace: the rate is below this, and above it is a class. The slowest has no bound but 800 days.
local RATE_LIMIT, SLOWEST, LONGEST_REFILL = 1125899906842624, 7, 69120000000000
-- The paces that four digits can tell: of the first class those with rates below the first number, of
-- the others with rates below the second. All of them, with room for eight roundings.
local RATES, FEW_RATES, PACES = 625, 89, 1250
-- Rates below these fit into short states, in two and in four bytes.
local SHORT_RATE, LONG_RATE = 8192, 536870912

local function bucket()
  local it = { SHORT = { [11] = '>BI6I2I2', [15] = '>BI6I4I4' } }

  -- A pace as a number below `PACES`; nil if it is none of those.
  function it.digits(pace)
    local rate = pace % RATE_LIMIT
    local class = (pace - rate) / RATE_LIMIT
    if class == 0 then return rate < RATES and rate or nil end
    return rate < FEW_RATES and RATES + (class - 1) * FEW_RATES + rate or nil
  end

  -- A pace in a short state: the class above the bits that a short rate needs.
  function it.short(pace)
    local rate = pace % RATE_LIMIT
    local class = (pace - rate) / RATE_LIMIT
    if rate < SHORT_RATE then return 11, class * SHORT_RATE + rate end
    if rate < LONG_RATE then return 15, class * LONG_RATE + rate end
    return 21, pace
  end

  function it.step(round)
    return 256 * 16 ^ round
  end

  -- By as much as leaves it within the period, and in proportion to the debt: most keys are seen
  -- once, and should not linger. Another limit may have made more debt than this one can.
  local function rounding(rule, debt)
    local _, bits = math.frexp(max(0, min(rule[3] - debt, 64 * debt)))
    return max(0, min(7, floor((bits - 9) / 4)))
  end

  -- What an integer says: when the bucket is full, the pace, and the rounding. Nothing if it is none.
  function it.whole(raw)
    if #raw < 16 or #raw > 19 or not raw:find('^[1-9]%d+$') then return nil end
    local code = tonumber(raw:sub(-4))
    local pace = code % PACES
    local round = (code - pace) / PACES
    if pace >= RATES then
      local rate = (pace - RATES) % FEW_RATES
      pace = ((pace - RATES - rate) / FEW_RATES + 1) * RATE_LIMIT + rate
    end
    return SINCE + tonumber(raw:sub(1, -5)), pace, round
  end

  function it.packed(rule, round, full_at, rest, pace)
    local since, digits = full_at - SINCE, it.digits(pace)
    if rest + rule[7] == 0 and digits and since >= FEWEST and since < MOST then
      return format('%.0f%04.0f', since, round * PACES + digits)
    end
    local length, code = it.short(pace)
    if length == 21 or rest >= 4294967296 or full_at >= BEFORE * HIGH then
      return pack('>I7I7I7', full_at, rest, pace)
    end
    -- A remainder is smaller than the rate.
    local head = floor(full_at / HIGH)
    return pack(it.SHORT[length], round * BEFORE + head, full_at - head * HIGH, rest, code)
  end

  -- Writes it with a time to live of its own.
  function it.keep(key, rule, at, was, full_at, rest, pace)
    local round = rounding(rule, full_at - at)
    local final = full_at + min(rest, 1)
    local cell = it.step(round)
    if round > 0 then final = floor(full_at / cell) * cell + cell end
    return keep(key, was, it.packed(rule, round, full_at, rest, pace), final - at)
  end

  return it
end
